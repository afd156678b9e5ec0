#include "apid/trust.h"

#include <ctype.h>
#include <kj/debug.h>

#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "rpc/types.capnp.h"

namespace talos::apid {
namespace {

kj::String text(capnp::Data::Reader bytes) {
  return kj::heapString(bytes.asChars());
}

Credentials credentials(capnp::Data::Reader authorities, rpc::KeyPair::Reader pair) {
  return {text(authorities), text(pair.getCrt()), pki::Pem(text(pair.getKey()))};
}

void replace(kj::Maybe<kj::Own<TlsEndpoint>>& end, Credentials credentials) {
  KJ_IF_MAYBE (existing, end) {
    (*existing)->replace(kj::mv(credentials));
  } else {
    end = kj::heap<TlsEndpoint>(kj::mv(credentials));
  }
}

kj::String lower(kj::StringPtr name) {
  auto result = kj::str(name);
  for (char& c : result) c = tolower(static_cast<unsigned char>(c));
  return result;
}

}  // namespace

Trust::Trust(StoreClient& store, kj::StringPtr hostname)
    : hostname(lower(hostname)), readiness(nullptr) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  becameReady = kj::mv(paf.fulfiller);
  readiness = paf.promise.fork();
  certificates =
      store.watch("ApiCertificates.secrets.talos.dev", [this]() { certificatesChanged(); });
  addresses = store.watch("NodeAddresses.net.talos.dev", [this]() { selfChanged(); });
  names = store.watch("HostnameSpecs.net.talos.dev", [this]() { selfChanged(); });
}

Trust::~Trust() noexcept(false) {}

TlsEndpoint& Trust::server() {
  return *KJ_REQUIRE_NONNULL(serverEnd, "there are no certificates yet");
}

TlsEndpoint& Trust::client() {
  return *KJ_REQUIRE_NONNULL(clientEnd, "there are no certificates yet");
}

void Trust::certificatesChanged() {
  KJ_IF_MAYBE (held, certificates->resources().find("api"_kj)) {
    auto stored = held->get().getMetadata().getVersion();
    if (stored == version) return;
    version = stored;
    auto failure = kj::runCatchingExceptions([&]() {
      auto spec = held->spec<rpc::ApiCertificateSpec>();
      auto server = credentials(spec.getCa(), spec.getServer());
      auto client = credentials(spec.getCa(), spec.getClient());
      TlsEndpoint check(credentials(spec.getCa(), spec.getServer()));  // both or none
      replace(clientEnd, kj::mv(client));
      replace(serverEnd, kj::mv(server));
    });
    KJ_IF_MAYBE (e, failure) {
      log::error("the node's API certificates cannot be used",
                 {{"version", stored}, {"reason", messageOf(*e)}});
      return;
    }
    log::info("API certificates are in use", {{"version", stored}});
    becameReady->fulfill();
  }
}

void Trust::selfChanged() {
  Self fresh;
  fresh.names.add(kj::str(hostname));
  for (auto& entry : names->resources()) {
    auto spec = entry.value.spec<rpc::HostnameSpecSpec>();
    auto name = lower(spec.getHostname());
    if (name.size() == 0) continue;
    if (spec.getDomainname().size() > 0)
      fresh.names.add(kj::str(name, '.', lower(spec.getDomainname())));
    fresh.names.add(kj::mv(name));
  }
  // Only what the node has now: another machine may have what it once had.
  KJ_IF_MAYBE (held, addresses->resources().find("current"_kj)) {
    for (kj::StringPtr written : held->spec<rpc::NodeAddressSpec>().getAddresses()) {
      auto end = written.findFirst('/').orDefault(written.size());
      KJ_IF_MAYBE (address, Address::tryParse(kj::heapString(written.slice(0, end)))) {
        fresh.addresses.add(*address);
      }
    }
  }
  known = kj::mv(fresh);
}

}  // namespace talos::apid
