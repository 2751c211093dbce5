# cmake -D INPUT=page.html -D OUTPUT=page.cpp -D INCLUDE=header.hpp -D FUNCTION=name -P EmbedText.cmake
#   Writes a source with `std::string_view memopd::detail::FUNCTION()`, the text of INPUT.
file(READ "${INPUT}" text)
string(FIND "${text}" ")MEMOPD\"" end)
if(NOT end EQUAL -1)
  message(FATAL_ERROR "${INPUT}: )MEMOPD\" ends the literal that it is embedded in")
endif()
file(WRITE "${OUTPUT}" "#include \"${INCLUDE}\"\n\nnamespace memopd::detail {\n\nstd::string_view ${FUNCTION}() {\n"
  "  return R\"MEMOPD(${text})MEMOPD\";\n}\n\n}  // namespace memopd::detail\n")
