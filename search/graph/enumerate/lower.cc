// lower.cc: see lower.h. Lowering writes one kernel's nodes.
#include "search/graph/enumerate/lower.h"

#include <algorithm>
#include <map>
#include <set>

#include "search/graph/enumerate/layout.h"
#include "search/graph/ir/graph_editor.h"
#include "search/rounding.h"

namespace gqa {
namespace {

class Lowering {
 public:
  Lowering(const Section& section, const LoopPlacement& placement, const Layout& layout)
      : section_(section), loop_placement_(placement), layout_(layout), editor_(section.graph) {}

  std::optional<KernelGraph> run(Reason* reason) {
    *reason = Reason::kMalformed;
    if (layout_.splits == 1) {
      write_whole();
    } else {
      if (!partials_are_apart()) {
        *reason = Reason::kSharedPartial;
        return std::nullopt;
      }
      write_parts();
      write_merge();
    }
    return failed_ ? std::nullopt : editor_.finish();
  }

 private:
  // The nodes of the kernel that is being written.
  struct Writer {
    Writer(const std::vector<TensorSpec>& operands, const std::vector<std::int64_t>& grid, std::int64_t steps,
           bool cuts)
        : block(operands, grid, steps), loops(cuts) {}
    BlockBuilder block;
    bool loops;  // the loop's dimension is cut
    std::map<int, int> values = {};
    std::map<std::pair<int, std::string>, int> loads = {};
    std::vector<int> stored = {};  // tensors of the section
    std::set<std::string> names = {};

    // A name that the block has not: short, of the tensor's and what it is.
    std::string name(const std::string& tensor, std::string_view what = "") {
      std::string made = tensor.substr(0, 32) + std::string(what);
      for (int copy = 2; !names.insert(made).second; ++copy)
        made = tensor.substr(0, 32) + std::string(what) + std::to_string(copy);
      return made;
    }
  };

  const KernelNode& node(std::size_t at) const { return section_.node(at); }
  std::size_t count() const { return section_.graph.nodes().size(); }
  const Placement& placement(std::size_t at) const { return loop_placement_.nodes[at]; }
  std::size_t maker(int tensor) const { return static_cast<std::size_t>(section_.graph.tensor(tensor).node); }
  bool cut(const DimensionIds& ids) const { return std::count(ids.begin(), ids.end(), layout_.loop) > 0; }
  const std::string& name_of(int tensor) const { return section_.graph.tensor(tensor).name; }

  static std::string key_of(const TileMap& map) {
    std::string key;
    for (const Slice& slice : map.grid) key += std::to_string(slice.dim) + "/" + std::to_string(slice.tile) + ",";
    return key + std::to_string(map.loop.dim);
  }

  int load(Writer* writer, int tensor, const TileMap& map) {
    const auto [known, fresh] = writer->loads.emplace(std::pair(tensor, key_of(map)), -1);
    if (!fresh) return known->second;
    const std::vector<int>& inputs = section_.graph.inputs();
    const auto operand = static_cast<int>(std::find(inputs.begin(), inputs.end(), tensor) - inputs.begin());
    return known->second = writer->block.load(operand, map, writer->name(name_of(tensor), "_tile"));
  }

  int read(Writer* writer, std::size_t at, std::size_t which) {
    const int tensor = node(at).inputs[which];
    if (!section_.is_input(tensor)) return need(writer, tensor);
    const DimensionIds& ids = section_.reads[at][which];
    const bool whole = placement(at).phase == Phase::kBefore && cut(ids);
    return load(writer, tensor, layout_.map(ids, writer->loops && !whole));
  }

  // A value of the kernel; what the merging kernel lacks of before the loop is computed there again.
  int need(Writer* writer, int tensor) {
    if (const auto known = writer->values.find(tensor); known != writer->values.end()) return known->second;
    return write(writer, maker(tensor));
  }

  int write(Writer* writer, std::size_t at) {
    std::vector<int> inputs;
    for (std::size_t which = 0; which < node(at).inputs.size(); ++which) inputs.push_back(read(writer, at, which));
    const int tensor = node(at).outputs[0];
    int made = writer->block.add(lowered(at), inputs, node(at).attributes, writer->name(name_of(tensor)));
    if (writer->loops) made = carry(writer, at, made);
    return writer->values[tensor] = made;
  }

  // A running maximum is -inf until a key is seen; -inf - -inf would be NaN.
  Op lowered(std::size_t at) const {
    if (node(at).op != Op::kSub) return node(at).op;
    const int maximum = section_.maximum_behind(node(at).inputs[1]);
    const bool runs = maximum >= 0 && placement(static_cast<std::size_t>(maximum)).carry == Carry::kRunningMaximum;
    return runs ? Op::kSubMax : Op::kSub;
  }

  int carry(Writer* writer, std::size_t at, int made) {
    const auto add = [&](Op op, std::vector<int> inputs) {
      return writer->block.add(op, std::move(inputs), {},
                               writer->name(name_of(node(at).outputs[0]), "_" + std::string(name(op))));
    };
    switch (placement(at).carry) {
      case Carry::kSum:
        return add(Op::kAccumulate, {made});
      case Carry::kMaximum:
        return add(Op::kAccumulateMax, {made});
      case Carry::kRunningMaximum:
        return add(Op::kRunningMax, {made});
      case Carry::kRescaledSum:
        return add(Op::kAccumulateRescaled, {made, writer->values.at(maximum_of(at))});
      case Carry::kNone:
        break;
    }
    return made;
  }

  int maximum_of(std::size_t at) const { return node(static_cast<std::size_t>(placement(at).maximum)).outputs[0]; }

  void write_phase(Writer* writer, Phase phase) {
    for (std::size_t at = 0; at < count(); ++at) {
      if (placement(at).phase == phase) write(writer, at);
    }
  }

  // What the loop reads but does not cut is loaded before it.
  void load_invariants(Writer* writer) {
    for (std::size_t at = 0; at < count(); ++at) {
      if (placement(at).phase != Phase::kLoop) continue;
      for (std::size_t which = 0; which < node(at).inputs.size(); ++which) {
        if (section_.is_input(node(at).inputs[which]) && !cut(section_.reads[at][which])) read(writer, at, which);
      }
    }
  }

  void write_loop(Writer* writer) {
    write_phase(writer, Phase::kBefore);
    load_invariants(writer);
    writer->block.loop();
    write_phase(writer, Phase::kLoop);
    writer->block.after();
  }

  // Values of the loop are stored as it goes.
  bool stored_in_loop(int tensor) const {
    return placement(maker(tensor)).phase == Phase::kLoop && placement(maker(tensor)).carry == Carry::kNone;
  }

  void store(Writer* writer, int tensor) {
    const TileMap map = layout_.map(section_.results[maker(tensor)], writer->loops);
    TensorSpec result = section_.graph.spec(tensor);
    writer->block.store(need(writer, tensor), map, result);
    writer->stored.push_back(tensor);
  }

  static std::vector<int> drop_unread(const std::vector<int>& operands, BlockGraph* block) {
    std::map<int, int> numbers;
    for (const BlockNode& step : block->nodes) {
      if (step.op == Op::kLoad) numbers[step.operand] = 0;
    }
    std::vector<int> read;
    for (auto& [operand, number] : numbers) {
      number = static_cast<int>(read.size());
      read.push_back(operands[static_cast<std::size_t>(operand)]);
    }
    for (BlockNode& step : block->nodes) {
      if (step.op == Op::kLoad) step.operand = numbers[step.operand];
    }
    return read;
  }

  // Adds the kernel; its results stand for the section's tensors that were stored.
  std::vector<int> finish(Writer* writer, const std::vector<int>& operands) {
    BlockGraph block;
    if (writer->block.results() == 0 || !writer->block.finish(&block).ok()) {
      failed_ = true;
      return {};
    }
    const std::vector<int> results = editor_.add_custom(drop_unread(operands, &block), block);
    for (std::size_t at = 0; at < writer->stored.size(); ++at) editor_.replace(writer->stored[at], results[at]);
    return results;
  }

  std::vector<TensorSpec> input_specs() const {
    std::vector<TensorSpec> specs;
    for (const int input : section_.graph.inputs()) specs.push_back(section_.graph.spec(input));
    return specs;
  }

  void write_whole() {
    Writer writer(input_specs(), layout_.grid, layout_.steps, layout_.loop != kNoDimension);
    if (layout_.loop == kNoDimension) {
      write_phase(&writer, Phase::kBefore);
    } else {
      write_loop(&writer);
      write_phase(&writer, Phase::kAfter);
    }
    for (const int output : section_.graph.outputs()) store(&writer, output);
    finish(&writer, editor_.keep(section_.graph.inputs()));
  }

  // Nodes whose carried values the merging kernel reads.
  std::vector<std::size_t> carried() const {
    std::vector<std::size_t> found;
    for (std::size_t at = 0; at < count(); ++at) {
      if (placement(at).carry != Carry::kNone) found.push_back(at);
    }
    return found;
  }

  // Each block along a grid dimension that a partial result does not have would write all of it.
  bool partials_are_apart() const {
    for (const std::size_t at : carried()) {
      for (std::size_t each = 0; each < layout_.grid_dim.size(); ++each) {
        const int to = layout_.grid_dim[each];
        if (to < 0 || layout_.grid[static_cast<std::size_t>(to)] == 1) continue;
        const DimensionIds& ids = section_.results[at];
        if (std::count(ids.begin(), ids.end(), static_cast<int>(each)) == 0) return false;
      }
    }
    return true;
  }

  void write_parts() {
    Writer writer(input_specs(), layout_.split_grid(), layout_.steps, true);
    write_loop(&writer);
    std::size_t whole = 0;
    for (const int output : section_.graph.outputs()) {
      if (stored_in_loop(output)) store(&writer, output), ++whole;
    }
    for (const std::size_t at : carried()) {
      const int tensor = node(at).outputs[0];
      Dims dims = section_.graph.spec(tensor).dims;
      dims.insert(dims.begin(), layout_.splits);
      const int part = writer.block.add(Op::kUnsqueeze, {writer.values.at(tensor)}, attributes_along(0),
                                        writer.name(name_of(tensor), "_part"));
      writer.block.store(part, layout_.partial_map(section_.results[at]), {dims, ElementType::kF32});
    }
    const std::vector<int> results = finish(&writer, editor_.keep(section_.graph.inputs()));
    partials_.assign(results.begin() + static_cast<std::ptrdiff_t>(failed_ ? 0 : whole), results.end());
  }

  void write_merge() {
    if (failed_) return;
    std::vector<int> operands = editor_.keep(section_.graph.inputs());
    std::vector<TensorSpec> specs = input_specs();
    for (const int partial : partials_) {
      operands.push_back(partial);
      specs.push_back(editor_.spec(partial));
    }
    Writer writer(specs, layout_.grid, 1, false);
    merge_all(&writer);
    for (std::size_t at = 0; at < count(); ++at) {
      if (placement(at).phase == Phase::kAfter) write(&writer, at);
    }
    for (const int output : section_.graph.outputs()) {
      if (!stored_in_loop(output)) store(&writer, output);
    }
    if (!writer.stored.empty()) finish(&writer, operands);
  }

  // Sums add up; those under different maxima, once brought under the largest.
  void merge_all(Writer* writer) {
    std::map<int, int> weights;  // of a maximum's parts
    const std::vector<std::size_t> nodes = carried();
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      const std::size_t at = nodes[k];
      const std::string& name = name_of(node(at).outputs[0]);
      BlockBuilder& block = writer->block;
      int parts = block.load(static_cast<int>(section_.graph.inputs().size() + k),
                             layout_.map(section_.results[at], false, 1), writer->name(name, "_parts_tile"));
      if (placement(at).carry == Carry::kRescaledSum)
        parts = block.add(Op::kMul, {parts, weights.at(placement(at).maximum)}, {}, writer->name(name, "_weighted"));
      const bool maximum = placement(at).carry == Carry::kMaximum || placement(at).carry == Carry::kRunningMaximum;
      const int merged =
          block.add(maximum ? Op::kMax : Op::kSum, {parts}, attributes_along(0), writer->name(name, "_merged"));
      if (placement(at).carry == Carry::kRunningMaximum) {
        const int shifted = block.add(Op::kSubMax, {parts, merged}, {}, writer->name(name, "_behind"));
        weights[static_cast<int>(at)] = block.add(Op::kExp, {shifted}, {}, writer->name(name, "_weights"));
      }
      writer->values[node(at).outputs[0]] =
          block.add(Op::kSqueeze, {merged}, attributes_along(0), writer->name(name, "_whole"));
    }
  }

  const Section& section_;
  const LoopPlacement& loop_placement_;
  const Layout& layout_;
  GraphEditor editor_;
  std::vector<int> partials_;
  bool failed_ = false;
};

}  // namespace

std::optional<KernelGraph> lower(const Section& section, const LoopPlacement& placement, const Cuts& cuts,
                                 Reason* reason) {
  const Layout layout(section, placement, cuts);
  return Lowering(section, placement, layout).run(reason);
}

}  // namespace gqa
