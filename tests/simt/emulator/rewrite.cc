// rewrite.cc: see rewrite.h.
#include "tests/simt/emulator/rewrite.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace gqa::simt {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// The end of what begins at `at` and is no code: a comment, a literal; `at` itself where code stands there.
std::size_t skip(std::string_view text, std::size_t at) {
  if (text.compare(at, 2, "//") == 0) return std::min(text.find('\n', at), text.size());
  if (text.compare(at, 2, "/*") == 0) return std::min(text.find("*/", at), text.size() - 2) + 2;
  if (text[at] != '"' && (text[at] != '\'' || (at > 0 && is_word(text[at - 1])))) return at;
  std::size_t end = at + 1;
  while (end < text.size() && text[end] != text[at]) end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

// The closing bracket of the opening one at `at`.
std::size_t closing(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    if (const std::size_t next = skip(text, at); next != at) {
      at = next;
      continue;
    }
    if (text[at] == '(' || text[at] == '[' || text[at] == '{') ++depth;
    if ((text[at] == ')' || text[at] == ']' || text[at] == '}') && --depth == 0) return at;
    ++at;
  }
  return std::string_view::npos;
}

// At separators that stand in no bracket and no literal.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t first = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t next = skip(text, at); next != at) {
      at = next;
    } else if (text[at] == '(' || text[at] == '[' || text[at] == '{') {
      at = std::min(closing(text, at), text.size() - 1) + 1;
    } else {
      if (text[at] == separator) {
        parts.push_back(trimmed(text.substr(first, at - first)));
        first = at + 1;
      }
      ++at;
    }
  }
  parts.push_back(trimmed(text.substr(first)));
  return parts;
}

// "=r"(x) -> ::gqa::simt::writes<'r'>(x)
std::string operand(std::string_view text) {
  const std::size_t quote = text.find('"', 1), open = text.find('(');
  const std::string_view constraint = text.substr(1, quote - 1);
  const bool written = constraint.front() == '=' || constraint.front() == '+';
  return std::string(written ? "::gqa::simt::writes<'" : "::gqa::simt::reads<'") + constraint.back() + "'>" +
         std::string(text.substr(open));
}

// What stands between the brackets of an asm statement -> a statement, without its semicolon.
std::string asm_statement(std::string_view inside) {
  const std::vector<std::string_view> parts = split(inside, ':');
  std::string operands;
  for (std::size_t part = 1; part < parts.size() && part < 3; ++part)
    for (const std::string_view each : split(parts[part], ','))
      if (!each.empty()) operands += operand(each) + ", ";
  return "do { static const ::gqa::simt::Instruction* const gqa_instruction = ::gqa::simt::machine->decode(" +
         std::string(parts[0]) + "); const ::gqa::simt::Operand gqa_operands[] = {" + operands +
         "{}}; ::gqa::simt::machine->execute(gqa_instruction, gqa_operands, {__FILE__, __LINE__}); } while (0)";
}

// extern __shared__ __align__(16) char memory[]; -> char* memory = ...;
std::string shared_array(std::string_view declaration) {
  std::string_view type = trimmed(declaration.substr(declaration.find("__shared__") + 10));
  for (const char* align : {"__align__", "alignas"})
    if (type.compare(0, std::string_view(align).size(), align) == 0)
      type = trimmed(type.substr(closing(type, type.find('(')) + 1));
  type = trimmed(type.substr(0, type.find('[')));
  std::size_t name = type.size();
  while (name > 0 && is_word(type[name - 1])) --name;
  const std::string element(trimmed(type.substr(0, name)));
  return element + "* const " + std::string(type.substr(name)) + " = reinterpret_cast<" + element +
         "*>(::gqa::simt::machine->dynamic_shared());";
}

bool word_at(std::string_view text, std::size_t at, std::string_view word) {
  return text.compare(at, word.size(), word) == 0 && (at == 0 || !is_word(text[at - 1])) &&
         (at + word.size() == text.size() || !is_word(text[at + word.size()]));
}

std::string keep_lines(std::string text, std::string_view instead_of) {
  const auto lines = [](std::string_view of) { return std::count(of.begin(), of.end(), '\n'); };
  const auto missing = lines(instead_of) - lines(text);
  return text.append(static_cast<std::size_t>(std::max<std::ptrdiff_t>(missing, 0)), '\n');
}

}  // namespace

std::string rewrite(const std::string& cuda) {
  const std::string_view text = cuda;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = skip(text, at);
    if (end != at) {
      out += text.substr(at, end - at);
    } else if (word_at(text, at, "asm")) {
      const std::size_t open = text.find('(', at);
      end = closing(text, open);
      if (end == std::string_view::npos) return out + std::string(text.substr(at));
      out += keep_lines(asm_statement(text.substr(open + 1, end - open - 1)), text.substr(at, end - at));
      ++end;
    } else if (word_at(text, at, "extern") && trimmed(text.substr(at + 6)).compare(0, 10, "__shared__") == 0) {
      end = std::min(text.find(';', at), text.size() - 1) + 1;
      out += keep_lines(shared_array(text.substr(at, end - at)), text.substr(at, end - at));
    } else {
      out += text[at];
      end = at + 1;
    }
    at = end;
  }
  return out;
}

}  // namespace gqa::simt
