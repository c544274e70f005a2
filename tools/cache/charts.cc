// charts.cc: see charts.h.
#include "tools/cache/charts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

// A scatter plot's sizes, in its own units: about as many pixels on a phone.
constexpr double kWidth = 360, kHeight = 300, kLeft = 56, kRight = 12, kTop = 26, kBottom = 44;
constexpr double kStrip = 1000;  // units of a strip's line

std::string coordinate(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

// Where a value of a logarithmic axis lies, 0 to 1.
double along(double value, double least, double most) {
  return most > least ? std::log(value / least) / std::log(most / least) : 0.5;
}

// "5 us", "200 us", "1 ms": a round number needs no digits behind the point.
std::string tick_text(double microseconds) {
  const bool milli = microseconds >= 1000;
  char text[32];
  std::snprintf(text, sizeof(text), "%g %s", milli ? microseconds / 1000 : microseconds, milli ? "ms" : "us");
  return text;
}

std::string svg_text(double x, double y, const char* anchor, const std::string& words) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + anchor + "\">" +
         escaped(words) + "</text>";
}

std::string svg_line(double x1, double y1, double x2, double y2, const char* kind) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + coordinate(x1) + "\" y1=\"" + coordinate(y1) + "\" x2=\"" +
         coordinate(x2) + "\" y2=\"" + coordinate(y2) + "\"/>";
}

// The same steps on both axes.
class Axes {
 public:
  explicit Axes(const std::vector<double>& steps) : steps_(steps) {}

  double x(double value) const { return kLeft + along(value, low(), high()) * (kWidth - kLeft - kRight); }
  double y(double value) const { return kHeight - kBottom - along(value, low(), high()) * (kHeight - kTop - kBottom); }

  std::string drawn(const std::string& x_title, const std::string& y_title) const {
    std::string text;
    const std::size_t every = (steps_.size() + 5) / 6;  // six labels an axis at most
    for (std::size_t i = 0; i < steps_.size(); i += every) {
      const double step = steps_[i];
      text += svg_line(x(step), kTop, x(step), kHeight - kBottom, "grid") +
              svg_line(kLeft, y(step), kWidth - kRight, y(step), "grid") +
              svg_text(x(step), kHeight - kBottom + 15, "middle", tick_text(step)) +
              svg_text(kLeft - 5, y(step) + 4, "end", tick_text(step));
    }
    text += svg_line(x(low()), y(low()), x(high()), y(high()), "equal");
    return text + svg_text((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", x_title + " \u2192") +
           svg_text(kLeft, kTop - 10, "start", "\u2191 " + y_title);
  }

 private:
  double low() const { return steps_.front(); }
  double high() const { return steps_.back(); }

  const std::vector<double>& steps_;
};

}  // namespace

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        const bool character = (c >= ' ' && c != '\x7f') || c == '\n' || c == '\t' || static_cast<signed char>(c) < 0;
        safe += character ? c : '?';
    }
  }
  return safe;
}

std::vector<double> round_steps(double least, double most) {
  std::vector<double> steps;
  if (!(least > 0) || !(most >= least) || !std::isfinite(most)) return steps;
  for (int power = static_cast<int>(std::floor(std::log10(least))) - 1; steps.empty() || steps.back() < most; ++power) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double step = digit * std::pow(10.0, power);
      if (step <= least) steps.clear();
      if (steps.empty() || steps.back() < most) steps.push_back(step);
    }
  }
  return steps;
}

std::string scatter(const std::vector<Point>& points, const std::string& x_title, const std::string& y_title) {
  double least = 0, most = 0;
  for (const Point& point : points) {
    if (!(point.x > 0 && point.y > 0)) continue;
    least = least > 0 ? std::min({least, point.x, point.y}) : std::min(point.x, point.y);
    most = std::max({most, point.x, point.y});
  }
  const std::vector<double> steps = round_steps(least, most);
  if (steps.empty()) return "";
  const Axes axes(steps);
  std::string text = "<svg class=\"scatter\" role=\"img\" viewBox=\"0 0 " + coordinate(kWidth) + " " +
                     coordinate(kHeight) + "\">" + axes.drawn(x_title, y_title);
  for (const bool chosen : {false, true}) {  // the chosen one above the others
    for (const Point& point : points) {
      if (!(point.x > 0 && point.y > 0) || point.chosen != chosen) continue;
      text += "<circle class=\"" + std::string(chosen ? "chosen" : "other") + "\" cx=\"" + coordinate(axes.x(point.x)) +
              "\" cy=\"" + coordinate(axes.y(point.y)) + "\" r=\"" + (chosen ? "6" : "4") + "\"><title>" +
              escaped(point.name) + ": " + escaped(x_title) + " " + time_text(point.x) + ", " + escaped(y_title) + " " +
              time_text(point.y) + "</title></circle>";
    }
  }
  return text + "</svg>\n";
}

std::string strip(const std::vector<double>& values, double from, double to, double middle) {
  const auto place = [from, to](double value) {
    const double share = to > from ? (value - from) / (to - from) : 0.5;
    return coordinate(std::clamp(share, 0.0, 1.0) * (kStrip - 10) + 5);
  };
  const auto stroke = [&place](double value, const char* span) { return "M" + place(value) + " " + span; };
  std::string each;
  for (const double value : values) each += stroke(value, "5V17");
  return "<svg class=\"strip\" viewBox=\"0 0 1000 22\" preserveAspectRatio=\"none\"><path class=\"sample\" d=\"" +
         each + "\"/><path class=\"middle\" d=\"" + stroke(middle, "1V21") + "\"/></svg>\n";
}

std::string meter(double share, double mark, bool chosen) {
  const auto percent = [](double value) { return coordinate(100 * std::clamp(value, 0.0, 1.0)); };
  std::string text =
      "<svg class=\"meter\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\"><rect class=\"track\" "
      "width=\"100\" height=\"10\"/><rect class=\"" +
      std::string(chosen ? "chosen" : "other") + "\" width=\"" + percent(share) + "\" height=\"10\"/>";
  if (mark >= 0 && mark <= 1) text += "<path class=\"mark\" d=\"M" + percent(mark) + " 0V10\"/>";
  return text + "</svg>\n";
}

}  // namespace gqa::tools
