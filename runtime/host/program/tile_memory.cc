// tile_memory.cc: see tile_memory.h.
#include "runtime/host/program/tile_memory.h"

#include <algorithm>
#include <vector>

#include "runtime/host/program/tile_program.h"

namespace gqa {
namespace {

constexpr std::int64_t kLineFloats = 16;  // a cache line

std::int64_t size_of(const ArenaValue& value) {
  return (elements(tile_dims(value.axes)) + kLineFloats - 1) / kLineFloats * kLineFloats;
}

class Planner {
 public:
  explicit Planner(TileProgram* program) : program_(*program), lives_(program->values.size()) {}

  void run() {
    for (std::size_t phase = 0; phase < program_.phases.size(); ++phase) note_uses(static_cast<int>(phase));
    std::int64_t lasting = 0;
    for (std::size_t at = 0; at < lives_.size(); ++at) {
      if (!lives_[at].lasts) continue;
      program_.values[at].offset = lasting;
      lasting += size_of(program_.values[at]);
    }
    program_.arena = lasting;
    for (const std::vector<TileStep>& steps : program_.phases) place(steps, lasting);
  }

 private:
  struct Life {
    int phase = -1;       // the one that uses it
    bool lasts = false;   // more than one does
    std::size_t end = 0;  // the last step that uses it
    bool placed = false;
  };
  struct Piece {
    std::int64_t begin, end;
    int value;
  };

  Life& life(int value) { return lives_[static_cast<std::size_t>(value)]; }
  ArenaValue& value(int at) { return program_.values[static_cast<std::size_t>(at)]; }

  void note_uses(int phase) {
    const std::vector<TileStep>& steps = program_.phases[static_cast<std::size_t>(phase)];
    for (std::size_t at = 0; at < steps.size(); ++at) {
      for (const int used : {steps[at].a, steps[at].b, steps[at].to}) {
        if (used < 0) continue;
        life(used).lasts = life(used).lasts || (life(used).phase >= 0 && life(used).phase != phase);
        life(used).phase = phase;
        life(used).end = at;
      }
    }
  }

  void place(const std::vector<TileStep>& steps, std::int64_t base) {
    std::vector<Piece> used;  // by their begin
    for (std::size_t at = 0; at < steps.size(); ++at) {
      const int to = steps[at].to;
      if (to >= 0 && !life(to).lasts && !life(to).placed) {
        if (!take_over(steps[at], at, &used)) insert(to, base, &used);
        life(to).placed = true;
      }
      std::erase_if(used, [&](const Piece& piece) { return life(piece.value).end == at; });
    }
  }

  // Writes over an operand that ends here.
  bool take_over(const TileStep& step, std::size_t at, std::vector<Piece>* used) {
    if (step.kind != StepKind::kUnary && step.kind != StepKind::kBinary && step.kind != StepKind::kMask) return false;
    for (Piece& piece : *used) {
      if ((piece.value != step.a && piece.value != step.b) || life(piece.value).end != at) continue;
      if (tile_dims(value(piece.value).axes) != tile_dims(value(step.to).axes) && step.kind == StepKind::kBinary)
        continue;
      if (size_of(value(piece.value)) != size_of(value(step.to))) continue;
      value(step.to).offset = piece.begin;
      piece.value = step.to;
      return true;
    }
    return false;
  }

  // In the first gap that is large enough.
  void insert(int at, std::int64_t base, std::vector<Piece>* used) {
    const std::int64_t size = size_of(value(at));
    std::int64_t begin = base;
    auto next = used->begin();
    for (; next != used->end() && next->begin < begin + size; ++next) begin = next->end;
    used->insert(next, {begin, begin + size, at});
    value(at).offset = begin;
    program_.arena = std::max(program_.arena, begin + size);
  }

  TileProgram& program_;
  std::vector<Life> lives_;
};

}  // namespace

void plan_memory(TileProgram* program) { Planner(program).run(); }

}  // namespace gqa
