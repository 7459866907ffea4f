# A CMake toolchain file: C and C++ with preemption probes, by whatever compiler CMake finds.
#
#   cmake -DCMAKE_TOOLCHAIN_FILE=/usr/local/share/quaver/quaver.cmake -B build
#
# Compilers are started as `quaver cc COMPILER`, at links too: with -flto they assemble there.

find_program(QUAVER_PROGRAM quaver HINTS "${CMAKE_CURRENT_LIST_DIR}/../../bin")
if(NOT QUAVER_PROGRAM)
    message(FATAL_ERROR "cannot find quaver: add its folder to PATH, or say -DQUAVER_PROGRAM=.../quaver")
endif()
set(quaver_launcher "${QUAVER_PROGRAM}" cc)
foreach(language C CXX)
    foreach(kind COMPILER LINKER)
        set(variable CMAKE_${language}_${kind}_LAUNCHER)
        if(DEFINED ENV{${variable}} OR (${variable} AND NOT ${variable} STREQUAL quaver_launcher))
            message(FATAL_ERROR "${variable} is set, but probes need that place: leave it out")
        endif()
        set(${variable} "${quaver_launcher}")
    endforeach()
endforeach()
