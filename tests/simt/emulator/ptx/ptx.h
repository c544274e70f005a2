// ptx.h: PTX instructions on the CPU, as the PTX ISA defines them.
// Owns: the reading of an asm statement's text and the table of the instructions that are known.
// Never: schedules threads (emulator.h).
// Threads: those of one launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simt/emulator/emulator.h"

namespace gqa::simt {

struct Call;
using Handler = void (*)(Emulator& emulator, const Call& call);

// What stands for an instruction's operand in the text: a number of an asm operand, a literal, a special register.
struct Argument {
  enum class Kind { kOperand, kLiteral, kSpecial } kind;
  std::uint64_t value;
  std::string name;
};

struct Instruction {
  std::string text, opcode;
  std::vector<Argument> arguments;  // in the order of the text, brackets and braces aside
  Handler handler = nullptr;        // null: unknown
};

// One execution by one thread.
struct Call {
  const Instruction& instruction;
  const Operand* operands;
  Place place;
  const Self* self;

  std::uint64_t read(std::size_t argument) const;
  float read_float(std::size_t argument) const;
  // As many bytes as the operand's constraint says.
  void write(std::size_t argument, std::uint64_t bits) const;
  void write_float(std::size_t argument, float value) const;
};

// One Instruction a text, which stays.
const Instruction* decode(const std::string& text);
void execute(Emulator& emulator, const Instruction& instruction, const Operand* operands, Place place);

// Groups of instructions: opcode -> handler.
struct Known {
  const char* opcode;
  Handler handler;
};
const std::vector<Known>& thread_instructions();   // one thread's: conversions, special registers
const std::vector<Known>& copy_instructions();     // cp.async
const std::vector<Known>& warp_instructions();     // ldmatrix, mma
const std::vector<Known>& block_instructions();    // what stands in braces with others: predicates
const std::vector<Known>& barrier_instructions();  // mbarrier, barrier, fences
const std::vector<Known>& bulk_instructions();     // cp.async.bulk
const std::vector<Known>& cluster_instructions();  // mapa, barrier.cluster, arrivals at other CTAs' barriers
const std::vector<Known>& wgmma_instructions();

}  // namespace gqa::simt
