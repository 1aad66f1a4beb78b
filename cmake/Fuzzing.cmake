# Flags of the preset "fuzz" for all that is compiled: libFuzzer's coverage, ASan, UBSan. Any report ends the program.
#
# Code of libraries is not instrumented: half of the time that it takes to compile. Instead their assertions are on, so that
# an index beyond a vector is found all the same. Of UBSan: CMakeLists.txt, PDL_UNDEFINED.
set(ignored ${CMAKE_BINARY_DIR}/not_instrumented.txt)
file(CONFIGURE OUTPUT ${ignored} CONTENT "src:/usr/*\n")
set(sanitizers -fsanitize=fuzzer-no-link,address,${PDL_UNDEFINED})
add_compile_options(-O1 -gline-tables-only -fno-omit-frame-pointer ${sanitizers} -fno-sanitize-recover=all
                    -fsanitize-ignorelist=${ignored} -fsanitize-coverage-ignorelist=${ignored})
add_compile_definitions(_GLIBCXX_ASSERTIONS)
add_link_options(${sanitizers})
