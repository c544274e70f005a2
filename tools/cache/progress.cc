// progress.cc: see progress.h.
#include "tools/cache/progress.h"

#include <algorithm>

#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

constexpr int kBarCells = 20;
constexpr std::chrono::milliseconds kRedrawEvery{60};
constexpr const char* kEraseLine = "\r\033[K";

// The share of the present shape's budget.
double spent_share(const Progress& shape) {
  const double whole = shape.seconds + shape.seconds_left;
  return whole > 0 ? shape.seconds / whole : 0;
}

std::string bar(const WarmProgress& progress) {
  const double share = (progress.done + spent_share(progress.shape)) / std::max(1, progress.total);
  const int full = std::clamp(static_cast<int>(share * kBarCells), 0, kBarCells);
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(kBarCells - full), '-') + "]";
}

double seconds_left(const WarmProgress& progress) {
  const int untouched = std::max(0, progress.total - progress.done - 1);
  const double present = progress.shape.seconds_left > 0 ? progress.shape.seconds_left : progress.seconds_a_shape;
  return (progress.done < progress.total ? present : 0) + untouched * progress.seconds_a_shape;
}

}  // namespace

std::string progress_line(const WarmProgress& progress, int columns) {
  const Progress& shape = progress.shape;
  std::string line = bar(progress) + " " + std::to_string(progress.done) + "/" + counted(progress.total, "shape") +
                     "  compiled " + std::to_string(shape.compiled) + " verified " + std::to_string(shape.verified) +
                     " timed " + std::to_string(shape.timed) + " of " + std::to_string(shape.selected);
  if (shape.best_us > 0) line += "  best " + time_text(shape.best_us);
  line += "  " + seconds_text(seconds_left(progress)) + " left";
  return line.substr(0, static_cast<std::size_t>(std::max(0, columns)));
}

ProgressLine::ProgressLine(std::FILE* stream, int total, double budget_seconds) : stream_(stream), terminal_(stream) {
  progress_.total = total;
  progress_.seconds_a_shape = budget_seconds;
  draw();
}

void ProgressLine::update(const Progress& shape) {
  const bool new_phase = shape.phase != progress_.shape.phase;
  progress_.shape = shape;
  if (new_phase || Clock::now() - last_ >= kRedrawEvery) draw();
}

void ProgressLine::next_shape() {
  ++progress_.done;
  progress_.seconds_a_shape = std::chrono::duration<double>(Clock::now() - start_).count() / progress_.done;
  progress_.shape = {};
  if (progress_.done < progress_.total) draw();
}

void ProgressLine::clear() {
  if (!drawn_) return;
  std::fputs(kEraseLine, stream_);
  std::fflush(stream_);
  drawn_ = false;
}

// One column stays free: a full line would make some terminals begin a new one.
void ProgressLine::draw() {
  if (!terminal_.live()) return;
  last_ = Clock::now();
  std::fputs((kEraseLine + progress_line(progress_, terminal_.columns() - 1)).c_str(), stream_);
  std::fflush(stream_);
  drawn_ = true;
}

}  // namespace gqa::tools
