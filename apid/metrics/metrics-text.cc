#include "apid/metrics/metrics-text.h"

#include <kj/debug.h>
#include <math.h>

#include <charconv>

namespace talos::metrics {
namespace {

constexpr kj::StringPtr kTotal = "_total"_kj;

kj::StringPtr nameOf(Type type, Format format) {
  switch (type) {
    case Type::kCounter:
      return "counter"_kj;
    case Type::kGauge:
      return "gauge"_kj;
    case Type::kHistogram:
      return "histogram"_kj;
    case Type::kUntyped:
      return format == Format::kOpenMetrics ? "unknown"_kj : "untyped"_kj;
  }
  KJ_UNREACHABLE;
}

kj::String digits(uint64_t value) {
  return kj::str(value);
}

}  // namespace

kj::String numberText(double value) {
  if (isnan(value)) return kj::str("NaN");
  if (isinf(value)) return kj::str(value > 0 ? "+Inf" : "-Inf");
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value == floor(value) && fabs(value) < kExact) return kj::str(static_cast<int64_t>(value));
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value);
  return kj::heapString(buffer, end.ptr - buffer);
}

void MetricsText::family(kj::StringPtr familyName, Type familyType, kj::StringPtr familyHelp) {
  KJ_REQUIRE((familyType == Type::kCounter) == familyName.endsWith(kTotal),
             "a counter, and nothing else, is named with _total", familyName);
  name = familyName;
  type = familyType;
  help = familyHelp;
  begun = false;
}

// Returns false if nothing more may be written.
bool MetricsText::begin() {
  if (full) return false;
  if (text.size() > kMostText) {
    full = true;
    return false;
  }
  if (begun) return true;
  begun = true;
  auto shown = name.asArray();
  if (format == Format::kOpenMetrics && type == Type::kCounter) {
    shown = shown.slice(0, shown.size() - kTotal.size());
  }
  write("# HELP ");
  text.addAll(shown);
  write(" ");
  write(help);
  write("\n# TYPE ");
  text.addAll(shown);
  write(" ");
  write(nameOf(type, format));
  write("\n");
  return true;
}

void MetricsText::writeLabel(const Label& label, bool first) {
  write(first ? "{" : ",");
  write(label.name);
  write("=\"");
  for (char c : label.value) {
    if (c == '\\' || c == '"') {
      text.add('\\');
      text.add(c);
    } else if (c == '\n') {
      write("\\n");
    } else {
      text.add(c);
    }
  }
  text.add('"');
}

void MetricsText::sample(kj::StringPtr suffix, Labels labels, const Label* more,
                         kj::StringPtr value) {
  ++count;
  write(name);
  write(suffix);
  bool first = true;
  for (auto& label : labels) {
    writeLabel(label, first);
    first = false;
  }
  if (more != nullptr) {
    writeLabel(*more, first);
    first = false;
  }
  write(first ? " " : "} ");
  write(value);
  text.add('\n');
}

void MetricsText::add(Labels labels, double value) {
  if (begin()) sample("", labels, nullptr, numberText(value));
}

void MetricsText::add(Labels labels, uint64_t value) {
  if (begin()) sample("", labels, nullptr, digits(value));
}

void MetricsText::addHistogram(Labels labels, kj::ArrayPtr<const double> bounds,
                               kj::ArrayPtr<const uint64_t> counts, double sum) {
  KJ_REQUIRE(counts.size() == bounds.size() + 1, "one count for each bound, and one above all");
  if (!begin()) return;
  uint64_t below = 0;
  for (auto i : kj::indices(bounds)) {
    below += counts[i];
    auto bound = numberText(bounds[i]);
    // OpenMetrics requires a fraction in each bound.
    if (format == Format::kOpenMetrics && bounds[i] == floor(bounds[i]))
      bound = kj::str(bound, ".0");
    Label le{"le", bound};
    sample("_bucket", labels, &le, digits(below));
  }
  below += counts.back();
  Label le{"le", "+Inf"};
  sample("_bucket", labels, &le, digits(below));
  sample("_sum", labels, nullptr, numberText(sum));
  sample("_count", labels, nullptr, digits(below));
}

kj::String MetricsText::finish() {
  bool cut = full;
  full = false;
  family("talos_metrics_left_out", Type::kGauge,
         "1 if the answer would be too large, and ends early");
  // begin() would refuse this family too.
  auto rest = MetricsText(format);
  rest.family(name, type, help);
  rest.add({}, cut);
  text.addAll(rest.text);
  if (format == Format::kOpenMetrics) write("# EOF\n");
  return kj::heapString(text.begin(), text.size());
}

kj::StringPtr contentType(Format format) {
  return format == Format::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"_kj
             : "text/plain; version=0.0.4; charset=utf-8"_kj;
}

namespace {

kj::ArrayPtr<const char> trimmed(kj::ArrayPtr<const char> text) {
  while (text.size() > 0 && (text.front() == ' ' || text.front() == '\t')) {
    text = text.slice(1, text.size());
  }
  while (text.size() > 0 && (text.back() == ' ' || text.back() == '\t')) {
    text = text.slice(0, text.size() - 1);
  }
  return text;
}

// Cuts off the text before the next such character, and trims the blanks around it.
kj::ArrayPtr<const char> cut(kj::ArrayPtr<const char>& rest, char at) {
  size_t end = 0;
  while (end < rest.size() && rest[end] != at) ++end;
  auto part = trimmed(rest.slice(0, end));
  rest = rest.slice(kj::min(end + 1, rest.size()), rest.size());
  return part;
}

bool isWord(kj::ArrayPtr<const char> text, kj::StringPtr word) {
  if (text.size() != word.size()) return false;
  for (auto i : kj::indices(text)) {
    char c = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] + ('a' - 'A')) : text[i];
    if (c != word[i]) return false;
  }
  return true;
}

struct MediaRange {
  kj::ArrayPtr<const char> type, version;
  double weight = 1;
};

MediaRange mediaRangeOf(kj::ArrayPtr<const char> item) {
  MediaRange range;
  range.type = cut(item, ';');
  while (item.size() > 0) {
    auto parameter = cut(item, ';');
    auto name = cut(parameter, '=');
    auto value = trimmed(parameter);
    if (isWord(name, "q")) {
      range.weight = value.size() > 0 && value.size() < 8
                         ? kj::heapString(value).tryParseAs<double>().orDefault(0)
                         : 0;
    } else if (isWord(name, "version")) {
      range.version = value;
    }
  }
  return range;
}

constexpr size_t kMostRanges = 64;

}  // namespace

bool acceptsGzip(kj::StringPtr acceptEncoding) {
  kj::Maybe<double> gzip, any;
  kj::ArrayPtr<const char> rest = acceptEncoding;
  for (size_t i = 0; i < kMostRanges && rest.size() > 0; ++i) {
    auto range = mediaRangeOf(cut(rest, ','));
    if (isWord(range.type, "gzip") || isWord(range.type, "x-gzip")) gzip = range.weight;
    if (isWord(range.type, "*")) any = range.weight;
  }
  return gzip.orDefault(any.orDefault(0)) > 0;
}

Format formatFor(kj::StringPtr accept) {
  double open = 0, plain = 0;
  kj::ArrayPtr<const char> rest = accept;
  for (size_t i = 0; i < kMostRanges && rest.size() > 0; ++i) {
    auto range = mediaRangeOf(cut(rest, ','));
    bool versionKnown = range.version.size() == 0 || isWord(range.version, "1.0.0");
    if (isWord(range.type, "application/openmetrics-text") && versionKnown) {
      open = kj::max(open, range.weight);
    } else if (isWord(range.type, "text/plain") || isWord(range.type, "text/*") ||
               isWord(range.type, "*/*")) {
      plain = kj::max(plain, range.weight);
    }
  }
  return open > 0 && open >= plain ? Format::kOpenMetrics : Format::kPrometheus;
}

}  // namespace talos::metrics
