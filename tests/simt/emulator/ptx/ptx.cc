// ptx.cc: see ptx.h.
#include "tests/simt/emulator/ptx/ptx.h"

#include <bit>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "tests/simt/emulator/ptx/ptx_block.h"

namespace gqa::simt {
namespace {

std::size_t width(char constraint) {
  return constraint == 'h' ? 2 : constraint == 'l' || constraint == 'd' ? 8 : constraint == 'q' ? 16 : 4;
}

// "[%0], [%1], 16, %2" -> operand 0, operand 1, literal 16, operand 2.
std::vector<Argument> arguments_of(const std::string& text) {
  std::vector<Argument> arguments;
  for (std::size_t at = 0; at < text.size();) {
    if (std::strchr("[]{}, \t\n", text[at]) != nullptr) {
      ++at;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of("[]{}, \t\n", at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end;
    if (word.compare(0, 2, "%%") == 0)
      arguments.push_back({Argument::Kind::kSpecial, 0, word.substr(2)});
    else if (word[0] == '%')
      arguments.push_back({Argument::Kind::kOperand, std::strtoull(word.c_str() + 1, nullptr, 10), {}});
    else
      arguments.push_back({Argument::Kind::kLiteral, std::strtoull(word.c_str(), nullptr, 0), word});
  }
  return arguments;
}

Handler handler_of(const std::string& opcode) {
  for (const auto* known :
       {&thread_instructions(), &copy_instructions(), &warp_instructions(), &block_instructions(),
        &barrier_instructions(), &bulk_instructions(), &cluster_instructions(), &wgmma_instructions()})
    for (const Known& each : *known)
      if (opcode == each.opcode) return each.handler;
  return nullptr;
}

Instruction read(const std::string& text) {
  Instruction instruction;
  instruction.text = text;
  if (is_block(text)) {
    instruction.handler = block_handler();
    return instruction;
  }
  const std::size_t semicolon = text.find(';');
  const std::string statement = text.substr(0, semicolon);
  const std::size_t space = std::min(statement.find(' '), statement.size());
  instruction.opcode = statement.substr(0, space);
  instruction.arguments = arguments_of(statement.substr(space));
  // One instruction a wrapper: more after the first semicolon is not understood.
  const bool single = semicolon == std::string::npos || text.find_first_not_of(" \n\t", semicolon + 1) == text.npos;
  if (single) instruction.handler = handler_of(instruction.opcode);
  return instruction;
}

std::uint64_t special(const std::string& name, const Self& self) {
  const std::map<std::string, unsigned> registers = {
      {"tid.x", self.thread.x},
      {"tid.y", self.thread.y},
      {"tid.z", self.thread.z},
      {"ctaid.x", self.block.x},
      {"ctaid.y", self.block.y},
      {"ctaid.z", self.block.z},
      {"ntid.x", self.block_dim.x},
      {"nctaid.x", self.grid_dim.x},
      {"laneid", self.thread.x % 32},
      {"warpid", self.thread.x / 32},
      {"cluster_ctarank", self.cluster_rank},
      {"cluster_nctarank", self.cluster_size},
  };
  const auto found = registers.find(name);
  return found == registers.end() ? 0xdeadbeef : found->second;
}

}  // namespace

std::uint64_t Call::read(std::size_t argument) const {
  const Argument& a = instruction.arguments.at(argument);
  if (a.kind == Argument::Kind::kLiteral) return a.value;
  if (a.kind == Argument::Kind::kSpecial) return special(a.name, *self);
  const Operand& operand = operands[a.value];
  const std::size_t bytes = width(operand.constraint);
  return bytes >= 8 || operand.constraint == 'n' ? operand.bits : operand.bits & ((std::uint64_t{1} << 8 * bytes) - 1);
}

float Call::read_float(std::size_t argument) const {
  return std::bit_cast<float>(static_cast<std::uint32_t>(read(argument)));
}

void Call::write(std::size_t argument, std::uint64_t bits) const {
  const Operand& operand = operands[instruction.arguments.at(argument).value];
  std::memcpy(operand.written, &bits, width(operand.constraint));
}

void Call::write_float(std::size_t argument, float value) const {
  write(argument, std::bit_cast<std::uint32_t>(value));
}

const Instruction* decode(const std::string& text) {
  static std::map<std::string, std::unique_ptr<Instruction>> known;
  std::unique_ptr<Instruction>& instruction = known[text];
  if (instruction == nullptr) instruction = std::make_unique<Instruction>(read(text));
  return instruction.get();
}

void execute(Emulator& emulator, const Instruction& instruction, const Operand* operands, Place place) {
  if (instruction.handler == nullptr)
    emulator.fail("the emulator does not know `" + instruction.text + "`; give it a line in tests/simt/ptx_*.cc");
  instruction.handler(emulator, {instruction, operands, place, &emulator.thread().self});
}

}  // namespace gqa::simt
