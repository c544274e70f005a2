# Included right after project() by a pip build: takes cuda.h from the wheel that pyproject.toml lists as a build
# requirement, so that no CUDA toolkit is needed; without that wheel (no build isolation), from a toolkit. Sets the cache
# entry that the top CMakeLists.txt would, which then looks no more.
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import sys; print(';'.join(p for p in sys.path if p))"
  OUTPUT_VARIABLE python_path OUTPUT_STRIP_TRAILING_WHITESPACE)
find_path(GQA_CUDA_H_DIR cuda.h
  HINTS ${GQA_CUDA_INCLUDE} $ENV{CUDA_HOME}/include /usr/local/cuda/include
  PATHS ${python_path} ${CMAKE_PREFIX_PATH}
  PATH_SUFFIXES nvidia/cu13/include)
