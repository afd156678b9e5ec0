#include "etcd-supervisor/backup/backup-store-adapter.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kBackupId = "etcd"_kj;

void fill(rpc::EtcdBackupStatusSpec::Builder out, const BackupState& state) {
  out.setPhase(state.phase);
  out.setNewest(state.newest);
  out.setTaken(state.taken);
  out.setBytes(state.bytes);
  out.setKept(state.kept);
  out.setNext(state.next);
  out.setMessage(state.message);
}

}  // namespace

BackupStoreAdapter::BackupStoreAdapter(StoreClient& store, kj::Function<void()> changed)
    : store(store), inputs(store, kj::mv(changed)) {
  inputs.watch(configs, kBackupId);
}

kj::Maybe<BackupSettings> BackupStoreAdapter::settings() {
  KJ_IF_MAYBE (spec, configs.find(kBackupId)) {
    return BackupSettings{.schedule = {.prefix = kj::str(spec->getPrefix()),
                                       .every = spec->getEverySeconds() * kj::SECONDS,
                                       .keep = spec->getKeep()},
                          .store = kj::str(spec->getEndpoint(), "/", spec->getBucket()),
                          .recipient = kj::str(spec->getRecipient())};
  }
  return nullptr;
}

kj::Promise<void> BackupStoreAdapter::publish(kj::Maybe<BackupState> state) {
  StoreClient::Wanted records;
  KJ_IF_MAYBE (known, state) {
    records =
        oneRecord<rpc::EtcdBackupStatusSpec>(kBackupId, [&](auto spec) { fill(spec, *known); });
  }
  return store.replaceAll<rpc::EtcdBackupStatusSpec>(kj::mv(records));
}

}  // namespace talos::supervisor
