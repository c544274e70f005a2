// charts.h: plots as inline SVG, for pages that load nothing.
// Owns: the geometry of three plots, and round numbers for axes. Colours are the page's classes (report.cc).
// Never: knows what is plotted.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

namespace gqa::tools {

// &, <, > and quotes as entities; bytes that HTML has no character for as ?.
std::string escaped(const std::string& text);

// 1, 2 and 5 times powers of ten: the last one that is not above `least` to the first that is not below `most`, each of
// them above 0; not above 0: none.
std::vector<double> round_steps(double least, double most);

struct Point {
  double x = 0, y = 0;  // above 0: microseconds
  std::string name;     // shown where a pointer rests on it
  bool chosen = false;
};
// Both axes logarithmic and the same, with the line on which both are equal. Points that are not above 0 are left out;
// "" if none is left.
std::string scatter(const std::vector<Point>& points, const std::string& x_title, const std::string& y_title);

// Values as strokes on a line from `from` to `to`, with a bolder one for the middle.
std::string strip(const std::vector<double>& values, double from, double to, double middle);

// A bar of a share (0 to 1, more is cut) of its line, and a mark at another; below 0: no mark.
std::string meter(double share, double mark, bool chosen);

}  // namespace gqa::tools
