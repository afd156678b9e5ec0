#include "tests/containerd/model-registry.h"

#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/compat/http.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <kj/io.h>
#include <openssl/sha.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/net/ip.h"
#include "common/testing/test-port.h"
#include "common/tls/tls.h"
#include "tests/harness/process.h"

namespace talos::test {
namespace {

constexpr kj::StringPtr kManifestType = "application/vnd.oci.image.manifest.v1+json"_kj;
kj::String digestOf(kj::ArrayPtr<const kj::byte> bytes) {
  kj::byte sum[SHA256_DIGEST_LENGTH];
  SHA256(bytes.begin(), bytes.size(), sum);
  return kj::str("sha256:", kj::encodeHex(sum));
}

struct Content {
  kj::String layer, config, manifest, payload, payloadConfig, signatures;

  explicit Content(const ModelRegistry::Options& options)
      : layer(kj::heapString(options.layer.data(), options.layer.size())) {
    bool has = layer.size() > 0;
    auto layerDigest = digestOf(layer.asBytes());
    auto runs = options.entrypoint.empty() ? kj::str()
                                           : kj::str(R"("config":{"Entrypoint":[")",
                                                     options.entrypoint.c_str(), R"("]},)");
    config = kj::str(R"({"architecture":"amd64","os":"linux",)", runs,
                     R"("rootfs":{"type":"layers","diff_ids":[)",
                     has ? kj::str('"', layerDigest, '"') : kj::str(), "]}}");
    manifest =
        kj::str(R"({"schemaVersion":2,"mediaType":")", kManifestType,
                R"(","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":")",
                digestOf(config.asBytes()), R"(","size":)", config.size(), R"(},"layers":[)",
                has ? kj::str(R"({"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":")",
                              layerDigest, R"(","size":)", layer.size(), "}")
                    : kj::str(),
                "]}");
    if (options.signature.empty()) return;
    payload = kj::str(options.signedPayload.c_str());
    auto payloadDigest = digestOf(payload.asBytes());
    payloadConfig =
        kj::str(R"({"architecture":"","os":"","config":{},"rootfs":{"type":"layers","diff_ids":[")",
                payloadDigest, R"("]}})");
    signatures =
        kj::str(R"({"schemaVersion":2,"mediaType":")", kManifestType,
                R"(","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":")",
                digestOf(payloadConfig.asBytes()), R"(","size":)", payloadConfig.size(),
                R"(},"layers":[{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json",)",
                R"("digest":")", payloadDigest, R"(","size":)", payload.size(),
                R"(,"annotations":{"dev.cosignproject.cosign/signature":")",
                options.signature.c_str(), R"("}}]})");
  }
  // Returns the blob or manifest that the URL names.
  kj::StringPtr at(kj::StringPtr url) const {
    auto asks = [&](kj::StringPtr part) { return harness::contains(url.cStr(), part.cStr()); };
    auto asksFor = [&](kj::StringPtr what) {
      return what.size() > 0 && asks(digestOf(what.asBytes()));
    };
    if (asks("/manifests/sha256-") || asksFor(signatures)) return signatures;
    if (asks("/manifests/")) return manifest;
    if (asksFor(payload)) return payload;
    if (asksFor(payloadConfig)) return payloadConfig;
    return layer.size() > 0 && harness::contains(url.cStr(), digestOf(layer.asBytes()).cStr())
               ? layer
               : config;
  }
};

class Service final : public kj::HttpService {
 public:
  Service(kj::HttpHeaderTable& table, kj::HttpHeaderId authorization, kj::Timer& timer,
          const ModelRegistry::Options& options, kj::StringPtr notes)
      : table(table),
        authorization(authorization),
        timer(timer),
        options(options),
        content(options),
        notes(open(notes.cStr(), O_WRONLY | O_APPEND | O_CLOEXEC)) {}

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url, const kj::HttpHeaders& asked,
                            kj::AsyncInputStream&, Response& response) override {
    auto line = kj::str(url, "\n");
    KJ_SYSCALL(write(notes, line.begin(), line.size()));
    if (options.slowMs > 0) co_await timer.afterDelay(options.slowMs * kj::MILLISECONDS);
    kj::HttpHeaders headers(table);
    if (!options.credentials.empty()) {
      auto wanted =
          kj::str("Basic ", kj::encodeBase64(kj::StringPtr(options.credentials.c_str()).asBytes()));
      if (asked.get(authorization).orDefault("") != wanted) {
        headers.add("WWW-Authenticate", "Basic realm=\"model\"");
        response.send(401, "Unauthorized", headers, uint64_t(0));
        co_return;
      }
    }
    if (!url.startsWith(options.root.c_str()) || harness::contains(url.cStr(), "/absent/")) {
      co_return co_await response.sendError(404, "Not Found", table);
    }
    auto body = content.at(url);
    if (body.size() == 0) co_return co_await response.sendError(404, "Not Found", table);
    bool isManifest =
        body.begin() == content.manifest.begin() || body.begin() == content.signatures.begin();
    headers.set(kj::HttpHeaderId::CONTENT_TYPE, isManifest ? kManifestType : "text/plain"_kj);
    if (isManifest) headers.add("Docker-Content-Digest", digestOf(body.asBytes()));
    auto sent = kj::heapArray(body.asBytes());
    if (options.lies && !isManifest) sent[sent.size() / 2] ^= 1;
    auto stream = response.send(200, "OK", headers, body.size());
    if (method != kj::HttpMethod::HEAD) co_await stream->write(sent.begin(), sent.size());
  }

 private:
  kj::HttpHeaderTable& table;
  kj::HttpHeaderId authorization;
  kj::Timer& timer;
  const ModelRegistry::Options& options;
  Content content;
  kj::AutoCloseFd notes;
};

// Ignores failed connections, which are the clients' affair.
struct Ignore final : public kj::TaskSet::ErrorHandler {
  void taskFailed(kj::Exception&&) override {}
};

kj::Own<TlsEndpoint> endpointOf(const ModelRegistry::Options& options) {
  auto& authority = KJ_REQUIRE_NONNULL(options.authority);
  pki::LeafOptions leaf;
  leaf.addresses = kj::arr(kj::str(options.address.c_str()));
  auto own = pki::issue(authority.certificate, authority.key, kj::mv(leaf));
  auto endpoint = kj::heap<TlsEndpoint>();
  if (options.kind == ModelRegistry::Kind::kTls) {
    endpoint->replaceAnonymous(own.certificate, own.key);
  } else {
    endpoint->replace(
        Credentials{kj::str(authority.certificate), kj::mv(own.certificate), kj::mv(own.key)});
  }
  return endpoint;
}

kj::Promise<void> serveOne(kj::HttpServer& server, kj::Maybe<kj::Own<TlsEndpoint>>& tls,
                           kj::Own<kj::AsyncIoStream> stream) {
  KJ_IF_MAYBE (endpoint, tls) {
    auto accepted = co_await (*endpoint)->accept(kj::mv(stream), kj::str("client"));
    stream = kj::mv(accepted.stream);
  }
  co_await server.listenHttp(kj::mv(stream));
}

[[noreturn]] void serve(kj::AutoCloseFd listening, const ModelRegistry::Options& options,
                        kj::StringPtr notes) {
  auto io = kj::setupAsyncIo();
  kj::HttpHeaderTable::Builder builder;
  auto authorization = builder.add("Authorization");
  auto table = builder.build();
  Service service(*table, authorization, io.provider->getTimer(), options, notes);
  kj::HttpServer server(io.provider->getTimer(), *table, service);
  kj::Maybe<kj::Own<TlsEndpoint>> tls;
  if (options.kind != ModelRegistry::Kind::kPlain) tls = endpointOf(options);
  auto receiver = io.lowLevelProvider->wrapListenSocketFd(kj::mv(listening));
  Ignore ignore;
  kj::TaskSet tasks(ignore);
  for (;;) tasks.add(serveOne(server, tls, receiver->accept().wait(io.waitScope)));
}

}  // namespace

ModelRegistry::ModelRegistry(Options given) : options(kj::mv(given)) {
  auto place = Endpoint{Ip::require(options.address.c_str()), 0}.socketName();
  int raw;
  KJ_SYSCALL(raw = socket(place.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  kj::AutoCloseFd listening(raw);
  KJ_SYSCALL(bind(listening, place.get(), place.size()));
  KJ_SYSCALL(listen(listening, 64));
  port = portOf(listening);
  char name[] = "/tmp/model-registry-XXXXXX";
  kj::AutoCloseFd file(mkstemp(name));
  notes = name;
  KJ_SYSCALL(pid = fork());
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto failed =
        kj::runCatchingExceptions([&]() { serve(kj::mv(listening), options, notes.c_str()); });
    _exit(failed == nullptr ? 0 : 1);
  }
}

ModelRegistry::~ModelRegistry() noexcept(false) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  unlink(notes.c_str());
}

std::string ModelRegistry::digestOf(const Options& options) {
  return test::digestOf(Content(options).manifest.asBytes()).cStr();
}
std::string ModelRegistry::host() const {
  return Endpoint{Ip::require(options.address.c_str()), static_cast<uint16_t>(port)}
      .toString()
      .cStr();
}
std::string ModelRegistry::url() const {
  return (options.kind == Kind::kPlain ? "http://" : "https://") + host();
}
std::vector<std::string> ModelRegistry::asked() const {
  return harness::lines(harness::slurp(notes));
}

}  // namespace talos::test
