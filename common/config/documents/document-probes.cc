// Documents of probes: TCPProbeConfig and HTTPProbeConfig.

#include "common/config/documents/document-reader.h"
#include "common/net/http-url.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

constexpr auto kProbes = "machine.network.probes"_kj;
constexpr auto kUsualInterval = 1 * kj::SECONDS, kUsualTimeout = 10 * kj::SECONDS;
// A node must not attack a host, or use its processor for nothing else.
constexpr auto kLeastInterval = 100 * kj::MILLISECONDS, kLeastTimeout = 1 * kj::MILLISECONDS;
constexpr size_t kMostProbes = 128;
constexpr size_t kMostUrl = 500;  // with its kind it is the id of a resource, of 512 bytes at most

}  // namespace

ProbeDocuments::ProbeDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder),
      view(view),
      probes(view.asReader().getMachine().getNetwork().getProbes().size()) {}

void ProbeDocuments::write() {
  probes.write(view.asReader().getMachine().getNetwork().getProbes(),
               [&](unsigned size) { return view.getMachine().getNetwork().initProbes(size); });
}

void ProbeDocuments::tcp(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::TCPProbeConfig>(document)) {
    auto errors = decoder.errors();
    if (parseHostPort(d->getEndpoint()) == nullptr) {
      decoder.report(document, "endpoint",
                     kj::str(jsonString(d->getEndpoint()), " is not a host and a port"),
                     "for example 192.0.2.1:22");
    }
    add(document, *d, d->getEndpoint(), {.http = false, .good = decoder.errors() == errors});
  }
}

void ProbeDocuments::http(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::HTTPProbeConfig>(document)) {
    auto errors = decoder.errors();
    if (parseHttpUrl(d->getUrl()) == nullptr) {
      // The text may contain a password.
      decoder.report(document, "url",
                     kj::str("not a URL of http or https with a host and without a user"),
                     "for example https://192.0.2.1/healthz");
    } else if (d->getUrl().size() > kMostUrl) {
      decoder.report(document, "url", kj::str("longer than ", kMostUrl, " bytes"),
                     "a shorter path");
    }
    add(document, *d, d->getUrl(), {.http = true, .good = decoder.errors() == errors});
  }
}

template <typename Reader>
void ProbeDocuments::add(Document& document, Reader settings, kj::StringPtr target, Target at) {
  auto interval =
      milliseconds(document, "interval", settings.getInterval(), kLeastInterval, kUsualInterval);
  auto timeout =
      milliseconds(document, "timeout", settings.getTimeout(), kLeastTimeout, kUsualTimeout);
  if (interval == nullptr || timeout == nullptr || !at.good) return;
  auto intervalMs = KJ_ASSERT_NONNULL(interval), timeoutMs = KJ_ASSERT_NONNULL(timeout);
  if (probes.size() == kMostProbes) {
    return decoder.report(document, "", kj::str("there are more than ", kMostProbes, " probes"),
                          "remove some");
  }
  Known known{document.label.cStr(),
              kj::str(intervalMs, " ", timeoutMs, " ", settings.getFailureThreshold()).cStr()};
  auto [other, added] = targets.emplace(kj::str(at.http, target).cStr(), known);
  if (!added) {
    // Two documents for one target are one probe.
    if (other->second.settings == known.settings) return;
    return decoder.report(
        document, "",
        kj::str(other->second.label.c_str(), " has the same target and other settings"),
        "remove one of the two");
  }
  kj::String path;
  auto out = probes.add(kProbes, path);
  out.setTarget(target);
  out.setHttp(at.http);
  out.setIntervalMs(intervalMs);
  out.setTimeoutMs(timeoutMs);
  out.setFailures(settings.getFailureThreshold());
  decoder.from(document, "", path);
}

// Returns the time in a text, or another one if the text is empty or zero; nullptr after a mistake.
kj::Maybe<uint64_t> ProbeDocuments::milliseconds(Document& document, kj::StringPtr key,
                                                 kj::StringPtr text, kj::Duration least,
                                                 kj::Duration otherwise) {
  auto given = text.size() == 0 ? otherwise : parseDuration(text).orDefault(-1 * kj::NANOSECONDS);
  if (given == 0 * kj::NANOSECONDS) given = otherwise;
  if (given >= least) return static_cast<uint64_t>(given / kj::MILLISECONDS);
  bool valid = given >= 0 * kj::NANOSECONDS;
  decoder.report(document, key,
                 kj::str(jsonString(text), valid ? " is too short" : " is not a duration"),
                 kj::str("use ", least, " or more, for example 10s"));
  return nullptr;
}

}  // namespace talos::config
