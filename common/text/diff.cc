#include "common/text/diff.h"
#include "common/text/foreign-text.h"

#include <kj/vector.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace talos {
namespace {

constexpr size_t kMostSteps = 50'000'000;  // comparisons of two lines

struct DiffLines {
  std::vector<std::string_view> text;  // without their newline
  bool complete = true;                // the last one has its newline
};

DiffLines split(kj::StringPtr text) {
  DiffLines lines;
  std::string_view rest(text.begin(), text.size());
  while (!rest.empty()) {
    size_t end = rest.find('\n');
    lines.complete = end != rest.npos;
    lines.text.push_back(rest.substr(0, end));
    rest = lines.complete ? rest.substr(end + 1) : std::string_view();
  }
  return lines;
}

// Lines as numbers: equal lines have equal numbers. An incomplete last line is like no other.
class Numbers {
 public:
  std::vector<uint32_t> of(const DiffLines& lines) {
    std::vector<uint32_t> result;
    result.reserve(lines.text.size());
    for (size_t i = 0; i < lines.text.size(); ++i) {
      bool cut = !lines.complete && i + 1 == lines.text.size();
      auto& known = cut ? incomplete : whole;
      result.push_back(known.try_emplace(lines.text[i], next).first->second);
      if (result.back() == next) ++next;
    }
    return result;
  }

 private:
  std::unordered_map<std::string_view, uint32_t> whole, incomplete;
  uint32_t next = 0;
};

using Span = kj::ArrayPtr<const uint32_t>;

// The edit script: the fate of each line of both texts.
struct Script {
  std::vector<bool> removed, added;
};

void replaceAll(Script& script, size_t offset, Span from, Span to) {
  for (size_t i = 0; i < from.size(); ++i) script.removed[offset + i] = true;
  for (size_t i = 0; i < to.size(); ++i) script.added[offset + i] = true;
}

// Runs Myers' greedy search. For each number of edits d, the furthest line of `from` that is
// reached on each diagonal k = -d, -d+2, … d is kept, to walk back along them.
void findScript(Script& script, size_t offset, Span from, Span to) {
  auto n = static_cast<ptrdiff_t>(from.size()), m = static_cast<ptrdiff_t>(to.size());
  std::vector<std::vector<int32_t>> reached;
  size_t steps = 0;
  auto startOf = [&](ptrdiff_t d, ptrdiff_t k, bool& down) -> ptrdiff_t {
    if (d == 0) return 0;
    auto& before = reached[d - 1];
    auto at = [&](ptrdiff_t diagonal) -> ptrdiff_t { return before[(diagonal + d - 1) / 2]; };
    down = k == -d || (k != d && at(k - 1) < at(k + 1));
    return down ? at(k + 1) : at(k - 1) + 1;
  };
  for (ptrdiff_t d = 0;; ++d) {
    if (d > static_cast<ptrdiff_t>(kMostEdits) || steps > kMostSteps)
      return replaceAll(script, offset, from, to);
    reached.emplace_back(d + 1);
    for (ptrdiff_t k = -d; k <= d; k += 2) {
      bool down = false;
      ptrdiff_t x = startOf(d, k, down), y = x - k;
      while (x < n && y < m && y >= 0 && from[x] == to[y]) ++x, ++y, ++steps;
      ++steps;
      reached[d][(k + d) / 2] = static_cast<int32_t>(x);
      if (x != n || y != m) continue;
      for (ptrdiff_t step = d; step > 0; --step) {
        ptrdiff_t begin = startOf(step, k, down);
        if (down)
          script.added[offset + begin - k - 1] = true, ++k;
        else
          script.removed[offset + begin - 1] = true, --k;
      }
      return;
    }
  }
}

Script compare(Span from, Span to) {
  Script script{std::vector<bool>(from.size()), std::vector<bool>(to.size())};
  size_t shorter = std::min(from.size(), to.size()), begin = 0, end = 0;
  while (begin < shorter && from[begin] == to[begin]) ++begin;
  while (end < shorter - begin && from[from.size() - 1 - end] == to[to.size() - 1 - end]) ++end;
  findScript(script, begin, from.slice(begin, from.size() - end), to.slice(begin, to.size() - end));
  return script;
}

class Writer {
 public:
  Writer(const DiffLines& from, const DiffLines& to, const Script& script, size_t context)
      : from(from), to(to), script(script), context(context) {}

  void write(kj::StringPtr fromName, kj::StringPtr toName) {
    add("--- "), addShown({fromName.begin(), fromName.size()}), add("\n+++ ");
    addShown({toName.begin(), toName.size()}), add("\n");
    size_t i = 0, j = 0;  // positions after the written lines
    while (skipEqual(i, j)) {
      size_t before = std::min({context, i, j});
      size_t endI = i, endJ = j;
      findEnd(endI, endJ);
      hunk(i - before, endI, j - before, endJ);
      i = endI, j = endJ;
    }
  }

  kj::Vector<char> out;

 private:
  const DiffLines& from;
  const DiffLines& to;
  const Script& script;
  size_t context;

  void add(kj::StringPtr text) { out.addAll(text); }

  bool removed(size_t i) const { return i < from.text.size() && script.removed[i]; }
  bool added(size_t j) const { return j < to.text.size() && script.added[j]; }

  // Moves to the next change.
  bool skipEqual(size_t& i, size_t& j) const {
    while (!removed(i) && !added(j)) {
      if (i == from.text.size()) return false;
      ++i, ++j;
    }
    return true;
  }

  // Moves after the last change that is near enough to the ones before it, and after its context.
  void findEnd(size_t& i, size_t& j) const {
    for (;;) {
      while (removed(i)) ++i;
      while (added(j)) ++j;
      if (removed(i)) continue;
      size_t nextI = i, nextJ = j;
      bool more = skipEqual(nextI, nextJ);
      if (more && nextI - i <= 2 * context) {
        i = nextI, j = nextJ;
        continue;
      }
      size_t after = std::min(context, from.text.size() - i);
      i += after, j += after;
      return;
    }
  }

  static kj::String range(size_t begin, size_t end) {
    if (end == begin + 1) return kj::str(end);
    return kj::str(begin == end ? begin : begin + 1, ",", end - begin);
  }

  void hunk(size_t i, size_t endI, size_t j, size_t endJ) {
    add(kj::str("@@ -", range(i, endI), " +", range(j, endJ), " @@\n"));
    while (i < endI || j < endJ) {
      if (removed(i)) {
        line('-', from, i++);
      } else if (added(j)) {
        line('+', to, j++);
      } else {
        line(' ', from, i);
        ++i, ++j;
      }
    }
  }

  void line(char mark, const DiffLines& lines, size_t i) {
    out.add(mark);
    addShown(lines.text[i]);
    add("\n");
    if (!lines.complete && i + 1 == lines.text.size()) add("\\ No newline at end of file\n");
  }

  void addShown(std::string_view text) {
    add(printableText(kj::arrayPtr(text.data(), text.size())));
  }
};

}  // namespace

kj::String unifiedDiff(kj::StringPtr from, kj::StringPtr to, kj::StringPtr fromName,
                       kj::StringPtr toName, unsigned context) {
  if (from == to) return kj::str();
  auto fromLines = split(from), toLines = split(to);
  Numbers numbers;
  auto a = numbers.of(fromLines), b = numbers.of(toLines);
  auto script = compare(kj::arrayPtr(a.data(), a.size()), kj::arrayPtr(b.data(), b.size()));
  Writer writer(fromLines, toLines, script, context);
  writer.write(fromName, toName);
  writer.out.add('\0');
  return kj::String(writer.out.releaseAsArray());
}

}  // namespace talos
