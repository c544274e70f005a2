# Included right after project() by a pip build: where the machine has no CUDA toolkit, takes cuda.h from the wheel that
# pyproject.toml lists as a build requirement. Sets the same cache entry as the top CMakeLists.txt, which then looks no more.
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import sys; print(';'.join(p for p in sys.path if p))"
  OUTPUT_VARIABLE python_path OUTPUT_STRIP_TRAILING_WHITESPACE)
find_path(GQA_CUDA_H_DIR cuda.h
  HINTS ${GQA_CUDA_INCLUDE} $ENV{CUDA_HOME}/include /usr/local/cuda/include
  PATHS ${python_path} ${CMAKE_PREFIX_PATH}
  PATH_SUFFIXES nvidia/cu13/include)
