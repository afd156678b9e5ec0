#include "machined/config/trust/kept-identity.h"

#include <unistd.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/tls/authorities.h"
#include "common/tls/pki.h"
#include "common/wire/secret-file.h"
#include "machined/config/trust/join-controller.h"
#include "machined/resources/store-records.h"
#include "rpc/secret-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

using Spec = rpc::ApiCertificateSpec;

constexpr kj::StringPtr kId = "api"_kj;
constexpr size_t kMostIdentity = 256u << 10;

kj::String pem(capnp::Data::Reader bytes) {
  return kj::heapString(bytes.asChars());
}

kj::Maybe<kj::Own<SecretMessage>> readIdentity(kj::StringPtr file) {
  auto found = readSecretFile<Spec>(file, kMostIdentity);
  KJ_IF_MAYBE (message, found) {
    auto server = (*message)->getRoot<Spec>().getServer();
    pki::checkPair(pem(server.getCrt()), pem(server.getKey()));
  }
  return found;
}

// Returns the CAs that apid trusts with this certificate by the config; nullptr if it is of another
// cluster, or if the config does not say which CA must have issued it.
kj::Maybe<kj::String> trustedFor(rpc::JoinSpec::Reader join, Spec::Reader kept) {
  auto certificate = pem(kept.getServer().getCrt()), accepted = pem(join.getAcceptedCAs());
  auto ca = pem(join.getCa());
  if (ca.size() == 0) {
    auto all = pki::certificatesIn(pem(kept.getCa()));
    if (all.empty() || pki::authorityHash(all[0]) != join.getCaHash()) return nullptr;
    ca = kj::mv(all[0]);
  }
  auto authorities = pki::authoritiesOf(ca, accepted);
  if (!pki::isSignedByAny(certificate, authorities.trusted)) return nullptr;
  return kj::mv(authorities.trusted);
}

}  // namespace

kj::Array<Controller::Input> KeptIdentityController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::JoinSpec>(),
                 input<Spec>(), input<rpc::MountStatusSpec>());
}

kj::Promise<void> KeptIdentityController::reconcile(Store& store) {
  if (!deps.isMounted()) co_return;
  bool hasKey = false;
  KJ_IF_MAYBE (config, deps.readConfig(store)) hasKey = !asksTrustd(*config);
  if (hasKey) {
    co_await deps.uv.blocking([file = kj::str(deps.file)] { (void)unlink(file.cStr()); });
    written = nullptr;
    loaded = false;
    co_return;
  }
  if (store.tryGet<rpc::JoinSpec>(kJoinId) == nullptr) co_return;
  if (!loaded) co_await load(store);
  co_await keep(store);
}

kj::Promise<void> KeptIdentityController::load(Store& store) {
  kj::Maybe<kj::Own<SecretMessage>> found;
  kj::Maybe<kj::String> error;
  co_await deps.uv.blocking([file = kj::str(deps.file)] { return readIdentity(file); })
      .then([&](kj::Maybe<kj::Own<SecretMessage>>&& read) { found = kj::mv(read); },
            [&](kj::Exception&& e) { error = messageOf(e); });
  loaded = true;
  KJ_IF_MAYBE (e, error) {
    log::warn("cannot read the stored API certificate; joining with the token",
              {{"file", deps.file}, {"error", *e}});
  }
  if (store.tryGet<Spec>(kId) != nullptr) co_return;  // a new brain, or apid was faster
  KJ_IF_MAYBE (message, found) {
    auto kept = (*message)->getRoot<Spec>().asReader();
    KJ_IF_MAYBE (join, store.tryGet<rpc::JoinSpec>(kJoinId)) {
      KJ_IF_MAYBE (trusted, trustedFor(*join, kept)) {
        (*message)->getRoot<Spec>().setCa(trusted->asBytes());
        putSpec<Spec>(deps.store, kId, kApidOwner, [&](capnp::AnyPointer::Builder place) {
          place.setAs<Spec>((*message)->getRoot<Spec>().asReader());
        });
        written = pem(kept.getServer().getCrt());
        log::info("API certificate of the last boot taken up");
      }
    }
  }
}

kj::Promise<void> KeptIdentityController::keep(Store& store) {
  KJ_IF_MAYBE (stored, store.tryGet<Spec>(kId)) {
    if (stored->getMaintenance() || stored->getServer().getCrt().size() == 0) co_return;
    auto certificate = pem(stored->getServer().getCrt());
    if (certificate == written) co_return;
    auto message = kj::heap<SecretMessage>();
    message->setRoot(static_cast<const Spec::Reader&>(*stored));
    co_await deps.uv.blocking([file = kj::str(deps.file), message = kj::mv(message)]() mutable {
      writeSecretFile(file, *message);
    });
    written = kj::mv(certificate);
  }
}

}  // namespace talos::machined
