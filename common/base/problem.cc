#include "common/base/problem.h"

#include <algorithm>
#include <vector>

#include "common/base/url-secrets.h"

namespace talos {
namespace {

// A candidate further away than a third of the text is another name, not a typing error.
constexpr size_t kLongestText = 64;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

// Returns the edit distance, in which swapping two neighbours counts as one change (optimal string
// alignment).
size_t distance(kj::StringPtr a, kj::StringPtr b) {
  std::vector<size_t> beforePrevious(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      bool same = lower(a[i - 1]) == lower(b[j - 1]);
      current[j] =
          std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1])) {
        current[j] = std::min(current[j], beforePrevious[j - 2] + 1);
      }
    }
    std::swap(beforePrevious, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

}  // namespace

kj::String Problem::toString() const {
  kj::String place = line == 0          ? (file.size() == 0 ? kj::str() : kj::str(file, ": "))
                     : file.size() == 0 ? kj::str("line ", line, ", column ", column, ": ")
                                        : kj::str(file, ":", line, ":", column, ": ");
  auto text = kj::str(place, severity == Severity::kWarning ? "warning: " : "", path,
                      path.size() == 0 ? "" : ": ", message, hint.size() == 0 ? "" : "; ", hint);
  return withoutUrlPasswords(text);
}

Problem Problem::clone() const {
  return {.severity = severity,
          .file = kj::str(file),
          .line = line,
          .column = column,
          .path = kj::str(path),
          .message = kj::str(message),
          .hint = kj::str(hint)};
}

bool hasErrors(const Problems& problems) {
  for (auto& problem : problems) {
    if (problem.severity == Problem::Severity::kError) return true;
  }
  return false;
}

kj::String render(const Problems& problems) {
  std::vector<const Problem*> sorted;
  for (auto& problem : problems) sorted.push_back(&problem);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem* a, const Problem* b) {
    return std::pair(a->line, a->column) < std::pair(b->line, b->column);
  });
  kj::Vector<kj::String> lines;
  for (auto* problem : sorted) lines.add(kj::str(problem->toString(), "\n"));
  return kj::strArray(lines, "");
}

kj::Maybe<kj::StringPtr> closest(kj::StringPtr text, kj::ArrayPtr<const kj::StringPtr> candidates) {
  if (text.size() == 0 || text.size() > kLongestText) return nullptr;
  kj::Maybe<kj::StringPtr> best;
  size_t bestDistance = std::max<size_t>(1, text.size() / 3) + 1;
  for (auto candidate : candidates) {
    if (candidate.size() > kLongestText) continue;
    size_t d = distance(text, candidate);
    // Two letters that are both different share nothing with the candidate.
    if (d < bestDistance && d < std::max(text.size(), candidate.size())) {
      bestDistance = d;
      best = candidate;
    }
  }
  return best;
}

}  // namespace talos
