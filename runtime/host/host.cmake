# The host device's own sources, flags and libraries, included by runtime/CMakeLists.txt.
