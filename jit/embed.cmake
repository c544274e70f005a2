# Writes a C++ file that holds the device headers as raw strings.
# Called with -DOUTPUT=, -DFOLDER=, -DHEADERS= (paths in it, by which they are included).
set(text "// Written by jit/embed.cmake from jit/device/.\n#include \"jit/embedded.h\"\n\nnamespace gqa {\n\n")
# Not constant: GCC 12 would try to evaluate what is made of them, for seconds.
string(APPEND text "namespace {\n\nstruct {\n  const char *name, *text;\n} texts[] = {\n")
foreach(header IN LISTS HEADERS)
  file(READ ${FOLDER}/${header} content)
  string(LENGTH "${content}" length)
  # Compilers need not take more than 65,536 characters at once.
  string(APPEND text "    {\"${header}\",")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${content}" ${at} 8000 piece)
    string(APPEND text " R\"gqa~(${piece})gqa~\"")
    math(EXPR at "${at} + 8000")
  endwhile()
  string(APPEND text "},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n\nconst std::vector<EmbeddedHeader>& embedded_headers() {\n")
string(APPEND text "  static const std::vector<EmbeddedHeader> headers = [] {\n    std::vector<EmbeddedHeader> made;\n")
string(APPEND text "    for (const auto& header : texts) made.push_back({header.name, header.text});\n")
string(APPEND text "    return made;\n  }();\n  return headers;\n}\n\n}  // namespace gqa\n")
file(WRITE ${OUTPUT} "${text}")
