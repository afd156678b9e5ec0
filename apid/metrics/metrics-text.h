// Writes metrics as text, in the format that a client requested: Prometheus' format, version 0.0.4,
// or OpenMetrics 1.0.0.
//
// Families are written one after the other, each with its HELP and TYPE and then its samples, so
// each family occurs once and its samples are together, as both formats require. A counter is named
// with `_total`, which OpenMetrics leaves out of the family's name. Text beyond kMostText is left
// out: then the last family says so. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

#include <initializer_list>

namespace talos::metrics {

enum class Format { kPrometheus, kOpenMetrics };
// kUntyped: `unknown` in OpenMetrics; for counters that node_exporter names without `_total`.
enum class Type { kCounter, kGauge, kHistogram, kUntyped };

struct Label {
  kj::StringPtr name;   // [a-zA-Z_][a-zA-Z0-9_]*
  kj::StringPtr value;  // any text
};
using Labels = kj::ArrayPtr<const Label>;

class MetricsText {
 public:
  // Limit of one answer. 3000 series have some 400 KiB.
  static constexpr size_t kMostText = 4u << 20;

  explicit MetricsText(Format format) : format(format) {}
  KJ_DISALLOW_COPY_AND_MOVE(MetricsText);

  // Starts a family, unless it has no sample: its HELP and TYPE are written with the first sample.
  // `name` and `help` must live until the next family; help is one sentence without a full stop.
  void family(kj::StringPtr name, Type type, kj::StringPtr help);

  void add(double value) { add({}, value); }
  void add(std::initializer_list<Label> labels, double value) {
    add(Labels(labels.begin(), labels.size()), value);
  }
  void add(Labels labels, double value);
  // Counters beyond 2^53 keep all their digits.
  void add(std::initializer_list<Label> labels, uint64_t value) {
    add(Labels(labels.begin(), labels.size()), value);
  }
  void add(Labels labels, uint64_t value);
  void add(uint64_t value) { add(Labels(), value); }
  void add(std::initializer_list<Label> labels, bool value) {
    add(labels, static_cast<uint64_t>(value ? 1 : 0));
  }
  // Adds a histogram: `counts[i]` of the values are at most bounds[i] and above the previous bound,
  // and the last count is for values above all bounds. `sum` is the sum of the values.
  void addHistogram(Labels labels, kj::ArrayPtr<const double> bounds,
                    kj::ArrayPtr<const uint64_t> counts, double sum);

  // Returns the whole text; call once.
  kj::String finish();
  size_t series() const { return count; }

 private:
  Format format;
  kj::Vector<char> text;
  kj::StringPtr name, help;
  Type type = Type::kGauge;
  bool begun = false, full = false;
  size_t count = 0;

  void write(kj::StringPtr part) { text.addAll(part); }
  bool begin();
  void sample(kj::StringPtr suffix, Labels labels, const Label* more, kj::StringPtr value);
  void writeLabel(const Label& label, bool first);
};

// Formats "+Inf", "-Inf" and "NaN" as both formats have them; whole numbers without a fraction.
kj::String numberText(double value);

// Returns the content type of an answer, with its version.
kj::StringPtr contentType(Format format);
// Selects the format by the header Accept, as RFC 9110 weighs it: OpenMetrics for clients that
// prefer it in a known version (1.0.0, or no version), else Prometheus' format. The bytes are not
// trusted; pure.
Format formatFor(kj::StringPtr accept);
// Returns true if the header Accept-Encoding permits gzip (RFC 9110, 12.5.3). Pure, as above.
bool acceptsGzip(kj::StringPtr acceptEncoding);

}  // namespace talos::metrics
