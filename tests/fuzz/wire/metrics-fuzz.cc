// link: apid-metrics
// Requests for metrics: the headers that decide what a client gets, and HTTP as KJ reads it.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "apid/metrics/kernel-metrics.h"
#include "apid/metrics/metrics-server.h"
#include "apid/metrics/metrics-text.h"
#include "tests/fuzz/fuzz-target.h"

FUZZ_TARGET(metrics) {
  using namespace talos;
  using namespace talos::metrics;
  auto header = kj::heapString(reinterpret_cast<const char*>(data), size);
  for (auto& c : header) {
    if (c == '\0') c = ' ';
  }
  (void)formatFor(header);
  Settings settings{.port = 1, .plain = false, .token = pki::Pem(kj::str("4sJwq8vGdd0uTq1p"))};
  Peer peer;
  peer.anonymous = true;
  bool allowed = refusal(settings, peer, kj::StringPtr(header)) == nullptr;
  KJ_ASSERT(!allowed || header.endsWith("4sJwq8vGdd0uTq1p"));
  // The files of a kernel that is not known, and any label.
  MetricsText out(size % 2 == 0 ? Format::kPrometheus : Format::kOpenMetrics);
  auto text = header.asArray();
  writeStat(out, text);
  writePressure(out, text, text, text);
  writeDisks(out, text);
  writeNetworkDevices(out, text);
  writeProtocols(out, text, text);
  out.family("x", Type::kGauge, "Any");
  out.add({{"v", header}}, true);
  KJ_ASSERT(out.finish().size() < (64u << 10) + 64 * size);
  return 0;
}
