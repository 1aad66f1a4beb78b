# pdl_program_texts(pdl-sim): its manual page and its completion for bash and zsh, written by the program itself whenever it is
# built (sim/tool/program_texts.hpp), and installed where man and the shells look.
function(pdl_program_texts PROGRAM)
  set(share ${CMAKE_BINARY_DIR}/share)
  set(bash ${share}/bash-completion/completions)
  set(zsh ${share}/zsh/site-functions)
  set(man ${share}/man/man1)
  file(MAKE_DIRECTORY ${bash} ${zsh} ${man})
  add_custom_command(TARGET ${PROGRAM} POST_BUILD
                     COMMAND ${PROGRAM} --completion bash > ${bash}/${PROGRAM}
                     COMMAND ${PROGRAM} --completion zsh > ${zsh}/_${PROGRAM}
                     COMMAND ${PROGRAM} --man-page > ${man}/${PROGRAM}.1
                     VERBATIM)
  install(FILES ${bash}/${PROGRAM} DESTINATION share/bash-completion/completions OPTIONAL)
  install(FILES ${zsh}/_${PROGRAM} DESTINATION share/zsh/site-functions OPTIONAL)
  install(FILES ${man}/${PROGRAM}.1 DESTINATION share/man/man1 OPTIONAL)
endfunction()
