// ptx_block.cc: asm statements of several instructions in braces, with predicates and labels of their own.
#include "tests/simt/emulator/ptx/ptx_block.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

namespace gqa::simt {
namespace {

constexpr std::size_t kMostOperands = 192, kMostLocals = 8;

struct Step {
  const Instruction* instruction = nullptr;  // null: a branch
  std::size_t target = 0;
  int guard = -1;  // a local
  bool negated = false;
};

struct Block {
  std::size_t operands = 0;  // of the asm statement; locals are numbered from here on
  std::vector<Step> steps;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

class Reader {
 public:
  explicit Reader(const std::string& text) {
    for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1))
      if (std::isdigit(static_cast<unsigned char>(text[at + 1])) != 0)
        block_.operands = std::max<std::size_t>(block_.operands, std::strtoul(&text[at + 1], nullptr, 10) + 1);
    std::string inside = text.substr(text.find('{') + 1);
    inside.erase(inside.rfind('}'));
    for (std::size_t at = 0; at < inside.size();) {
      const std::size_t end = std::min(inside.find(';', at), inside.size());
      statement(trimmed(inside.substr(at, end - at)));
      at = end + 1;
    }
    for (const auto& [step, label] : branches_) block_.steps[step].target = labels_.at(label);
  }

  Block take() { return std::move(block_); }

 private:
  void statement(std::string text) {
    if (const std::size_t colon = text.find(":\n"); colon != std::string::npos) {
      labels_[text.substr(0, colon)] = block_.steps.size();
      text = trimmed(text.substr(colon + 1));
    }
    if (text.empty()) return;
    if (text.compare(0, 5, ".reg ") == 0) {
      locals_.push_back(text.substr(text.rfind(' ') + 1));
      return;
    }
    Step step;
    if (text[0] == '@') {
      step.negated = text[1] == '!';
      const std::size_t space = text.find(' '), name = step.negated ? 2 : 1;
      step.guard = number_of(text.substr(name, space - name));
      text = trimmed(text.substr(space));
    }
    if (text.compare(0, 4, "bra ") == 0)
      branches_[block_.steps.size()] = text.substr(4);
    else
      step.instruction = decode(with_numbers(text) + ";");
    block_.steps.push_back(step);
  }

  int number_of(const std::string& word) const {
    const auto found = std::find(locals_.begin(), locals_.end(), word);
    return found == locals_.end() ? -1 : static_cast<int>(found - locals_.begin());
  }

  // Locals in the operands become numbers of asm operands; "a|b" is two operands.
  std::string with_numbers(const std::string& text) const {
    const std::size_t opcode = std::min(text.find(' '), text.size());
    std::string out = text.substr(0, opcode);
    for (std::size_t at = opcode; at < text.size();) {
      std::size_t end = at;
      while (end < text.size() && is_word(text[end])) ++end;
      if (end == at) {
        out += text[at] == '|' ? ',' : text[at];
        ++at;
        continue;
      }
      const std::string word = text.substr(at, end - at);
      const int number = text[at - 1] == '%' ? -1 : number_of(word);
      out += number < 0 ? word : "%" + std::to_string(block_.operands + static_cast<std::size_t>(number));
      at = end;
    }
    return out;
  }

  Block block_;
  std::vector<std::string> locals_;
  std::map<std::string, std::size_t> labels_;
  std::map<std::size_t, std::string> branches_;
};

const Block& block_of(const Instruction& instruction) {
  static std::map<const Instruction*, Block> blocks;
  const auto found = blocks.find(&instruction);
  if (found != blocks.end()) return found->second;
  return blocks[&instruction] = Reader(instruction.text).take();
}

void run_block(Emulator& emulator, const Call& call) {
  const Block& block = block_of(call.instruction);
  std::array<Operand, kMostOperands> operands;
  std::array<unsigned long long, kMostLocals> locals{};
  if (block.operands + kMostLocals > kMostOperands) emulator.fail("an asm statement of too many operands");
  std::copy_n(call.operands, block.operands, operands.begin());
  for (std::size_t i = 0; i < block.steps.size(); ++i) {
    const Step& step = block.steps[i];
    if (step.guard >= 0 && (locals[static_cast<std::size_t>(step.guard)] != 0) == step.negated) continue;
    for (std::size_t l = 0; l < kMostLocals; ++l) operands[block.operands + l] = {'l', &locals[l], locals[l]};
    if (step.instruction != nullptr)
      execute(emulator, *step.instruction, operands.data(), call.place);
    else
      i = step.target - 1;  // a label is never the first step's end: the loop steps on to it
  }
}

// ---- predicates

template <typename Compare>
void set_if(const Call& call, Compare compare) {
  call.write(0, compare() ? 1 : 0);
}

void not_equal(Emulator&, const Call& call) {
  set_if(call, [&] { return static_cast<std::uint32_t>(call.read(1)) != static_cast<std::uint32_t>(call.read(2)); });
}

// Its second operand: a literal in PTX's own form, 0f and eight hexadecimal digits.
void less(Emulator& emulator, const Call& call) {
  const Argument& right = call.instruction.arguments.at(2);
  if (right.name.compare(0, 2, "0f") != 0) emulator.fail("setp.lt.f32 with what is no literal");
  const auto bits = static_cast<std::uint32_t>(std::strtoul(right.name.c_str() + 2, nullptr, 16));
  float limit;
  std::memcpy(&limit, &bits, sizeof limit);
  set_if(call, [&] { return call.read_float(1) < limit; });
}

void select(Emulator&, const Call& call) { call.write(0, call.read(3) != 0 ? call.read(1) : call.read(2)); }

void store_shared(Emulator& emulator, const Call& call) {
  const float value = call.read_float(1);
  std::memcpy(emulator.shared(call.read(0), sizeof value, "st.shared"), &value, sizeof value);
}

}  // namespace

bool is_block(const std::string& text) { return trimmed(text).compare(0, 1, "{") == 0; }
Handler block_handler() { return run_block; }

const std::vector<Known>& block_instructions() {
  static const std::vector<Known> known = {
      {"setp.ne.b32", not_equal}, {"setp.ne.s32", not_equal},      {"setp.lt.f32", less},
      {"selp.s32", select},       {"st.shared.f32", store_shared},
  };
  return known;
}

}  // namespace gqa::simt
