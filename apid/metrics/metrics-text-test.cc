#include "apid/metrics/metrics-text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace talos::metrics {
namespace {

std::string written(Format format, void (*write)(MetricsText& out)) {
  MetricsText out(format);
  write(out);
  return out.finish().cStr();
}

constexpr const char* kEnd =
    "# HELP talos_metrics_left_out 1 if the answer would be too large, and ends early\n"
    "# TYPE talos_metrics_left_out gauge\n"
    "talos_metrics_left_out 0\n";

void writeSome(MetricsText& out) {
  out.family("empty", Type::kGauge, "Nothing");
  out.family("a_total", Type::kCounter, "Some");
  out.add({{"x", "1"}}, uint64_t{18446744073709551615u});
  out.add({{"x", "q\"b\\n\nl"}, {"y", ""}}, 0.25);
  out.family("b", Type::kUntyped, "One");
  out.add(-3.0);
  out.family("h_seconds", Type::kHistogram, "Times");
  static constexpr double bounds[] = {0.5, 1};
  static constexpr uint64_t counts[] = {1, 2, 4};
  Label label{"m", "x"};
  out.addHistogram(kj::arrayPtr(&label, 1), bounds, counts, 12.5);
}

// Catches: a label that ends early or breaks the line, a counter that loses digits, a family
// without samples, buckets that do not add up.
TEST(MetricsText, WritesPrometheusText) {
  EXPECT_EQ(std::string("# HELP a_total Some\n# TYPE a_total counter\n"
                        "a_total{x=\"1\"} 18446744073709551615\n"
                        "a_total{x=\"q\\\"b\\\\n\\nl\",y=\"\"} 0.25\n"
                        "# HELP b One\n# TYPE b untyped\nb -3\n"
                        "# HELP h_seconds Times\n# TYPE h_seconds histogram\n"
                        "h_seconds_bucket{m=\"x\",le=\"0.5\"} 1\n"
                        "h_seconds_bucket{m=\"x\",le=\"1\"} 3\n"
                        "h_seconds_bucket{m=\"x\",le=\"+Inf\"} 7\n"
                        "h_seconds_sum{m=\"x\"} 12.5\nh_seconds_count{m=\"x\"} 7\n") +
                kEnd,
            written(Format::kPrometheus, writeSome));
}

// Catches: a counter's family name with _total, a bound that is a whole number, a text without its
// end: a scraper refuses all of it.
TEST(MetricsText, WritesOpenMetrics) {
  EXPECT_EQ(std::string("# HELP a Some\n# TYPE a counter\n"
                        "a_total{x=\"1\"} 18446744073709551615\n"
                        "a_total{x=\"q\\\"b\\\\n\\nl\",y=\"\"} 0.25\n"
                        "# HELP b One\n# TYPE b unknown\nb -3\n"
                        "# HELP h_seconds Times\n# TYPE h_seconds histogram\n"
                        "h_seconds_bucket{m=\"x\",le=\"0.5\"} 1\n"
                        "h_seconds_bucket{m=\"x\",le=\"1.0\"} 3\n"
                        "h_seconds_bucket{m=\"x\",le=\"+Inf\"} 7\n"
                        "h_seconds_sum{m=\"x\"} 12.5\nh_seconds_count{m=\"x\"} 7\n") +
                kEnd + "# EOF\n",
            written(Format::kOpenMetrics, writeSome));
}

// Catches: an answer that grows without a limit; an answer that is cut within a line.
TEST(MetricsText, IsLimited) {
  MetricsText out(Format::kPrometheus);
  out.family("a", Type::kGauge, "Much");
  auto value = kj::str(kj::repeat('x', 1000));
  for (unsigned i = 0; i < 5000; ++i) out.add({{"v", value}}, uint64_t{1});
  std::string text = out.finish().cStr();
  EXPECT_LT(text.size(), MetricsText::kMostText + 4096);
  EXPECT_GT(text.size(), MetricsText::kMostText);
  EXPECT_TRUE(text.ends_with("\ntalos_metrics_left_out 1\n"));
}

TEST(MetricsText, WritesNumbers) {
  struct {
    double value;
    const char* text;
  } rows[] = {{0, "0"},
              {1, "1"},
              {-1, "-1"},
              {0.1, "0.1"},
              {1e9, "1000000000"},
              {1.5e300, "1.5e+300"},
              {1e-7, "1e-07"},
              {INFINITY, "+Inf"},
              {-INFINITY, "-Inf"},
              {NAN, "NaN"},
              {1764172800.25, "1764172800.25"}};
  for (auto& row : rows) EXPECT_STREQ(row.text, numberText(row.value).cStr());
}

// Catches: a format that the client did not accept, so that it would refuse the answer.
TEST(MetricsText, ChoosesTheFormat) {
  struct {
    const char* accept;
    Format format;
  } rows[] = {
      {"", Format::kPrometheus},
      {"*/*", Format::kPrometheus},
      {"text/plain", Format::kPrometheus},
      {"application/openmetrics-text", Format::kOpenMetrics},
      {"Application/OpenMetrics-Text ; Version=1.0.0 ; q=0.5", Format::kOpenMetrics},
      {"application/openmetrics-text;version=2.0.0", Format::kPrometheus},
      {"application/openmetrics-text;q=0", Format::kPrometheus},
      {"application/openmetrics-text;q=x", Format::kPrometheus},
      {"application/openmetrics-text;q=0.2,text/plain;q=0.9", Format::kPrometheus},
      {"application/openmetrics-text;version=1.0.0;q=0.6,"
       "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.3",
       Format::kOpenMetrics},
      {",;,=;q", Format::kPrometheus},
  };
  for (auto& row : rows) EXPECT_EQ(row.format, formatFor(row.accept)) << row.accept;
}

// Catches: an answer that the client cannot read, because it has refused gzip or never named it.
TEST(MetricsText, GzipIsForClientsThatAcceptIt) {
  struct {
    const char* accept;
    bool gzip;
  } rows[] = {{"", false},
              {"gzip", true},
              {"GZip;q=0.5", true},
              {"x-gzip", true},
              {"deflate, gzip;q=1.0, *;q=0.5", true},
              {"*", true},
              {"identity", false},
              {"zstd,br", false},
              {"gzip;q=0", false},
              {"gzip;q=0, *", false},
              {"*;q=0, gzip", true},
              {"*;q=0", false},
              {"gzipped", false},
              {",;,=;q", false}};
  for (auto& row : rows) EXPECT_EQ(row.gzip, acceptsGzip(row.accept)) << row.accept;
}

}  // namespace
}  // namespace talos::metrics
