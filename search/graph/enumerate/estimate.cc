// estimate.cc: see estimate.h.
#include "search/graph/enumerate/estimate.h"

#include <algorithm>
#include <cmath>

#include "search/graph/tile/tile_stream.h"
#include "search/rounding.h"

namespace gqa {
namespace {

// Rates of a device, beside those it states.
constexpr double kLaunchSeconds = 3e-6;       // of a kernel, with what it waits for the one before
constexpr double kStepSeconds = 0.25e-6;      // of a step of a loop that waits for nothing
constexpr double kIdleShare = 1.0 / 3;        // of an SM's bandwidth, where others have nothing to do
constexpr double kNoOverlap = 2;              // a block without a loop waits for all it reads before it begins
constexpr double kStreamSeconds = 1.5e-6;     // of a streamed loop's beginning and end
constexpr double kTensorShare = 0.75;         // of the peak that products reach
constexpr double kSharedBandwidth = 3;        // reads that meet in the L2, against memory
constexpr double kSimpleFlops = 1.0 / 24;     // elementwise operations a second, against tensor operations
constexpr double kFunctionFlops = 1.0 / 160;  // exponentials and the like
constexpr double kRegisterShare = 0.9;
constexpr std::int64_t kRegisterBytes = 4, kInstruction = 16, kColumns = 8;
constexpr std::int64_t kPlainTile = 64;                   // of a product that is a kernel of its own
constexpr std::int64_t kLeastTile = 16 * 16 * 2 * 2 * 2;  // two operands in two stages: what a plain product needs

std::int64_t from_end(const Dims& dims, std::size_t back) {
  return back < dims.size() ? dims[dims.size() - 1 - back] : 1;
}
std::int64_t batch_of(const Dims& dims) { return elements(dims) / (from_end(dims, 0) * from_end(dims, 1)); }

bool is_function(Op op) {
  switch (op) {
    case Op::kExp:
    case Op::kExp2:
    case Op::kSilu:
    case Op::kGelu:
    case Op::kTanh:
    case Op::kSoftmax:
      return true;
    default:
      return false;
  }
}

// Tensor operations that an operator's time amounts to. Products are padded to whole instructions; the rows of a batch
// that shares its second operand stand in one tile.
double work_of(Op op, const Attributes& attributes, const std::vector<Dims>& operands, const Dims& result) {
  const auto size = static_cast<double>(elements(result));
  if (op == Op::kMatmul) {
    const std::int64_t inner = from_end(operands[0], attributes.transpose_a ? 1 : 0);
    std::int64_t rows = from_end(result, 1), batch = batch_of(result);
    if (batch_of(operands[1]) == 1) rows *= batch, batch = 1;
    rows = std::min(round_up(rows, kInstruction), round_up(rows, kColumns) + kColumns);
    return 2.0 * static_cast<double>(batch * rows) * static_cast<double>(round_up(from_end(result, 0), kColumns)) *
           static_cast<double>(round_up(inner, kInstruction)) / kTensorShare;
  }
  const OpClass kind = info(op).kind;
  if (kind == OpClass::kSource || kind == OpClass::kView) return 0;
  double reads = size;
  for (const Dims& dims : operands) reads = std::max(reads, static_cast<double>(elements(dims)));
  return reads / (is_function(op) ? kFunctionFlops : kSimpleFlops);
}

double work_of(const BlockGraph& block, const BlockNode& node) {
  std::vector<Dims> operands;
  for (const int input : node.inputs) operands.push_back(tile_dims(block.nodes[static_cast<std::size_t>(input)].axes));
  return work_of(node.op, node.attributes, operands, tile_dims(node.axes));
}

double tensor_bytes(const TensorSpec& spec) {
  return static_cast<double>(elements(spec.dims)) * element_bytes(spec.type);
}

std::int64_t tile_bytes(const KernelGraph& graph, const KernelNode& node, const BlockNode& load) {
  const TensorSpec& spec = graph.spec(node.inputs[static_cast<std::size_t>(load.operand)]);
  return elements(tile_dims(load.axes)) * element_bytes(spec.type);
}

// What is read whole before the loop though the loop reads it too, cut, and elementwise steps behind it: each element
// is folded as it comes, and kept nowhere.
std::vector<bool> folded_in_passing(const BlockGraph& block) {
  std::vector<int> reads(block.nodes.size(), 0);
  std::vector<bool> found(block.nodes.size(), false);
  for (const BlockNode& step : block.nodes) {
    for (const int input : step.inputs) ++reads[static_cast<std::size_t>(input)];
  }
  const auto is_cut = [&](int operand) {
    return std::any_of(block.nodes.begin(), block.nodes.end(), [&](const BlockNode& step) {
      return step.op == Op::kLoad && step.operand == operand && step.map.loop.dim >= 0;
    });
  };
  for (std::size_t at = 0; at < block.nodes.size(); ++at) {
    const BlockNode& step = block.nodes[at];
    if (step.phase != Phase::kBefore || reads[at] != 1) continue;
    const bool elementwise = info(step.op).kind == OpClass::kElementwise;
    found[at] = step.op == Op::kLoad
                    ? is_cut(step.operand)
                    : elementwise && std::any_of(step.inputs.begin(), step.inputs.end(),
                                                 [&](int input) { return found[static_cast<std::size_t>(input)]; });
  }
  return found;
}

struct BlockWork {
  double once = 0, each_step = 0;              // tensor operations
  double bytes_once = 0, bytes_each_step = 0;  // read by a block
  double bytes_first = 0;                      // and before its loop can begin, whoever shares it
};

BlockWork work_of(const KernelGraph& graph, const KernelNode& node) {
  BlockWork work;
  const std::vector<bool> passing = folded_in_passing(*node.block);
  for (std::size_t at = 0; at < passing.size(); ++at) {
    const BlockNode& step = node.block->nodes[at];
    const bool loop = step.phase == Phase::kLoop;
    (loop ? work.each_step : work.once) += work_of(*node.block, step);
    if (step.op == Op::kLoad && passing[at])
      work.bytes_first += static_cast<double>(tile_bytes(graph, node, step));
    else if (step.op == Op::kLoad)
      (loop ? work.bytes_each_step : work.bytes_once) += static_cast<double>(tile_bytes(graph, node, step));
  }
  return work;
}

double memory_seconds(const KernelGraph& graph, const KernelNode& node, const DeviceSpec& device) {
  double bytes = 0;
  std::vector<bool> read(node.inputs.size(), !node.block);
  for (const BlockNode& step : node.block ? node.block->nodes : std::vector<BlockNode>()) {
    if (step.op == Op::kLoad) read[static_cast<std::size_t>(step.operand)] = true;
  }
  for (std::size_t at = 0; at < node.inputs.size(); ++at)
    bytes += read[at] ? tensor_bytes(graph.spec(node.inputs[at])) : 0;
  for (const int output : node.outputs) bytes += tensor_bytes(graph.spec(output));
  return bytes / device.memory_bandwidth;
}

double custom_seconds(const KernelGraph& graph, const KernelNode& node, const DeviceSpec& device) {
  const BlockWork work = work_of(graph, node);
  const double sms = std::max(1, device.sms), flops = device.tensor_flops / sms;
  const double bandwidth = kSharedBandwidth * device.memory_bandwidth / sms;
  const double steps = static_cast<double>(node.block->steps), all = static_cast<double>(blocks(*node.block));
  const double block = std::max(work.once / flops, work.bytes_once / bandwidth) +
                       steps * std::max(work.each_step / flops, work.bytes_each_step / bandwidth);
  const bool gpu = device.kind == DeviceKind::kCuda;
  const double first = kNoOverlap * work.bytes_first / bandwidth;
  if (const StreamCost cost = gpu ? stream_cost(graph, node, device.sms) : StreamCost(); cost.slowdown > 0) {
    const double waits = cost.slowdown * memory_seconds(graph, node, device);
    return std::max(all / sms * block, waits) + cost.rounds * (kStreamSeconds + first);
  }
  const double fit = std::max<double>(1, device.smem_per_sm) /
                     static_cast<double>(std::max<std::int64_t>(1, needs_of(graph, node).shared_bytes));
  const double together = std::clamp(std::floor(fit), 1.0, 4.0);
  const double waits = std::ceil(all / (sms * together)) * ((steps + 2) * kStepSeconds + first);
  const double balance = gpu ? std::max(kIdleShare, stream_balance(blocks(*node.block), device.sms, 1)) : 1;
  const double reads = memory_seconds(graph, node, device) / balance;
  return std::max(std::ceil(all / sms) * block + waits, gpu && steps == 1 ? kNoOverlap * reads : reads);
}

// A product as the general kernel has it: square tiles, a loop along the inner dimension, nothing split.
double product_seconds(const KernelGraph& graph, const KernelNode& node, const DeviceSpec& device) {
  const Dims &a = graph.spec(node.inputs[0]).dims, &result = graph.spec(node.outputs[0]).dims;
  const std::int64_t rows = round_up(from_end(result, 1), kPlainTile) / kPlainTile;
  const std::int64_t columns = round_up(from_end(result, 0), kPlainTile) / kPlainTile;
  const std::int64_t inner = from_end(a, node.attributes.transpose_a ? 1 : 0);
  const double sms = std::max(1, device.sms);
  const double rounds = std::ceil(static_cast<double>(rows * columns * batch_of(result)) / sms);
  const double reads = static_cast<double>(2 * kPlainTile * inner * element_bytes(graph.spec(node.inputs[0]).type));
  const double steps = std::ceil(static_cast<double>(inner) / kPlainTile) + 2;
  return rounds * reads * sms / (kSharedBandwidth * device.memory_bandwidth) +
         std::ceil(rounds / 4) * steps * kStepSeconds;
}

double plain_seconds(const KernelGraph& graph, const KernelNode& node, const DeviceSpec& device) {
  std::vector<Dims> operands;
  for (const int input : node.inputs) operands.push_back(graph.spec(input).dims);
  const double work = work_of(node.op, node.attributes, operands, graph.spec(node.outputs[0]).dims);
  const double least = std::max(work / device.tensor_flops, memory_seconds(graph, node, device));
  return node.op == Op::kMatmul ? std::max(least, product_seconds(graph, node, device)) : least + 4 * kStepSeconds;
}

std::optional<Reason> misfit(const KernelGraph& graph, const KernelNode& node, const DeviceSpec& device) {
  if (!node.block) {
    if (node.op == Op::kMatmul && device.smem_per_block < kLeastTile) return Reason::kSharedMemory;
    return std::nullopt;
  }
  const BlockNeeds needs = needs_of(graph, node);
  if (needs.shared_bytes > device.smem_per_block) return Reason::kSharedMemory;
  const double registers = kRegisterShare * static_cast<double>(kRegisterBytes * device.registers_per_sm);
  if (static_cast<double>(needs.register_bytes) > registers) return Reason::kRegisters;
  return std::nullopt;
}

}  // namespace

BlockNeeds needs_of(const KernelGraph& graph, const KernelNode& node) {
  BlockNeeds needs;
  std::int64_t largest = 0, kept = 0;
  const std::vector<bool> passing = folded_in_passing(*node.block);
  for (std::size_t at = 0; at < passing.size(); ++at) {
    const BlockNode& step = node.block->nodes[at];
    if (passing[at]) continue;
    const std::int64_t registers = elements(tile_dims(step.axes)) * kRegisterBytes;
    if (step.op == Op::kLoad) {
      const bool staged = step.phase == Phase::kLoop && node.block->steps > 1;
      needs.shared_bytes += tile_bytes(graph, node, step) * (staged ? 2 : 1);
    } else if (info(step.op).kind == OpClass::kAccumulator) {
      kept += registers;
    } else {
      largest = std::max(largest, registers);
    }
  }
  needs.register_bytes = kept + largest + largest / 2;
  return needs;
}

std::optional<Reason> misfit(const KernelGraph& graph, const DeviceSpec& device) {
  for (const KernelNode& node : graph.nodes()) {
    if (const auto reason = misfit(graph, node, device)) return reason;
  }
  return std::nullopt;
}

double seconds(const KernelGraph& graph, const DeviceSpec& device) {
  double total = 0;
  for (const KernelNode& node : graph.nodes()) {
    const double own = node.block ? custom_seconds(graph, node, device) : plain_seconds(graph, node, device);
    total += own + kLaunchSeconds;
  }
  return total;
}

}  // namespace gqa
