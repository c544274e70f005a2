// races.cc: see races.h.
#include "runtime/tuner/races.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/tuner/stopwatch.h"

namespace gqa {
namespace {

// A winner is to be within this of an idle device's.
constexpr double kTolerance = 1.1;
constexpr double kLookEvery = 0.02;  // seconds
// The winner is timed once more for so long; where the budget is spent, only while that takes next to nothing.
constexpr double kAgainUs = 200e3, kNothingUs = 100e3;
constexpr int kAgainSamples = 4;
// Samples that come in bursts are not each other's chance, and medians with their errors do not see them.
constexpr double kLate = 1.25, kMostLate = 0.15;
constexpr std::size_t kFewestToCompare = 4;

std::string told(const char* format, double number) {
  char text[128];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

// The share of the device that others had, averaged over a race.
class Others {
 public:
  explicit Others(const Course& course) : course_(course) { course_.others(); }
  void look_if_due() {
    if (watch_.seconds() - last_ >= kLookEvery) look();
  }
  double share() {
    look();
    return taken_ / last_;
  }

 private:
  void look() {
    const double now = std::max(watch_.seconds(), last_ + 1e-9);
    taken_ += course_.others() * (now - last_);
    last_ = now;
  }

  const Course& course_;
  const Stopwatch watch_;
  double last_ = 0, taken_ = 0;
};

// The winner once more.
void time_again(const Course& course, std::size_t winner, double median_us, std::vector<double>* samples) {
  const int count = static_cast<int>(std::clamp(kAgainUs / std::max(1.0, median_us), 1.0, double{kAgainSamples}));
  const Stopwatch watch;
  const auto nothing = [&] { return std::max(count * median_us, 1e6 * watch.seconds()) < kNothingUs; };
  while (static_cast<int>(samples->size()) < count && (!course.stop() || nothing()))
    if (!course.sample(winner, 1, samples).ok()) break;
}

// Whether a rival may be faster by more than the tolerance, and by how much.
double doubt(const std::vector<Runner>& runners, int winner) {
  const Summary& won = runners[static_cast<std::size_t>(winner)].summary;
  double most = 1;
  for (const Runner& rival : runners) {
    if (&rival == &runners[static_cast<std::size_t>(winner)] || rival.failed || rival.samples.empty()) continue;
    const double least = std::max(1e-9, rival.summary.median - 2 * rival.summary.error);
    most = std::max(most, (won.median + 2 * won.error) / least);
  }
  return most;
}

// The share of all samples that took far longer than their candidate's own quicker ones.
double late_share(const std::vector<Runner>& runners) {
  std::size_t late = 0, all = 0;
  for (const Runner& runner : runners) {
    if (runner.samples.size() < kFewestToCompare) continue;
    std::vector<double> sorted = runner.samples;
    std::sort(sorted.begin(), sorted.end());
    const double limit = kLate * sorted[sorted.size() / 4];
    late += static_cast<std::size_t>(sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), limit));
    all += sorted.size();
  }
  return all == 0 ? 0 : static_cast<double>(late) / static_cast<double>(all);
}

class Racetrack {
 public:
  explicit Racetrack(const Course& course) : course_(course) {}

  // One race, told in *raced.
  void run(const std::vector<Runner>& starting, Raced* raced) {
    raced->runners = starting;
    ++raced->races;
    std::vector<Runner>& runners = raced->runners;
    Others others(course_);
    const Stopwatch watch;
    Race race;
    race.sample = course_.sample;
    race.brief = course_.brief;
    race.out_of_time = [&] {
      return course_.stop() || watch.seconds() > course_.most_seconds(standing(runners).best_us);
    };
    race.progress = [&] {
      others.look_if_due();
      course_.progress(runners);
    };
    raced->winner = gqa::race(race, &runners);
    if (raced->winner < 0) return;
    raced->disturbed = judge(others.share(), raced->winner, &runners);
    seconds_ = watch.seconds();
  }

  bool again(const Raced& raced) const {
    return raced.winner >= 0 && !raced.disturbed.empty() && raced.races < course_.most_races && !course_.stop() &&
           course_.seconds_left() > seconds_;
  }

 private:
  // The samples of the second look count, too: a time must not rest on one that a pause spoilt.
  std::string judge(double others, int winner, std::vector<Runner>* runners) const {
    Runner& won = (*runners)[static_cast<std::size_t>(winner)];
    std::vector<double> samples;
    time_again(course_, static_cast<std::size_t>(winner), won.summary.median, &samples);
    const std::string why = disturbance(*runners, winner, summarize(samples), others);
    won.samples.insert(won.samples.end(), samples.begin(), samples.end());
    won.summary = summarize(won.samples);
    return why;
  }

  const Course& course_;
  double seconds_ = 0;  // of the last race
};

}  // namespace

std::string disturbance(const std::vector<Runner>& runners, int winner, const Summary& again, double others) {
  if (others > kMostOthers) return told("others had %.0f %% of the device", 100 * others);
  const Summary& won = runners[static_cast<std::size_t>(winner)].summary;
  const double difference = std::fabs(won.median - again.median) - 2 * std::hypot(won.error, again.error);
  if (again.median > 0 && difference > (kTolerance - 1) * std::min(won.median, again.median))
    return told("timed once more, the winner took %.2f times as long", again.median / won.median);
  const double late = late_share(runners);
  if (late > kMostLate)
    return told("%.0f %% of the samples took far longer than others of their candidate", 100 * late);
  const double factor = doubt(runners, winner);
  if (factor > kTolerance) return told("the samples differ so much that a rival may be %.2f times as fast", factor);
  return "";
}

Raced run_races(const Course& course, const std::vector<Runner>& starting) {
  Racetrack track(course);
  Raced raced;
  do track.run(starting, &raced);
  while (track.again(raced));
  return raced;
}

}  // namespace gqa
