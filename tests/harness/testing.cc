// testing.cc: nothing but a place to compile the tests' common header from; see suites.cmake.
