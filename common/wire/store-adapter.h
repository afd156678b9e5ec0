// Parts that the store adapters of the daemons share: their inputs as one set of watches, the
// records that they publish, and certificates of the store for TLS.
//
// An adapter translates between the specs of machined's store and the values of its daemon; it
// decides nothing. It holds no state that a crash could lose.
#pragma once

#include "common/base/error.h"
#include "common/tls/tls.h"
#include "common/wire/store-client.h"
#include "rpc/secret-resources.capnp.h"

namespace talos {

// The watches of one adapter.
class StoreInputs {
 public:
  // `changed` is called for every change of an input, but not before the adapter's constructor has
  // returned.
  StoreInputs(StoreClient& store, kj::Function<void()> changed)
      : store(store), changed(kj::mv(changed)) {}
  KJ_DISALLOW_COPY_AND_MOVE(StoreInputs);

  // `input` is a member of the adapter, declared after this object. With an id, only this resource
  // is watched.
  template <typename Spec>
  void watch(Watched<Spec>& input, kj::StringPtr id = "") {
    watch(input, id, [this] { changed(); });
  }
  // `apply` decides if the change matters, and then calls announce().
  template <typename Spec>
  void watch(Watched<Spec>& input, kj::StringPtr id, kj::Function<void()> apply) {
    input = store.watch<Spec>(kj::mv(apply), id);
    inputs.add([&input] { return input.synced(); });
  }
  void announce() { changed(); }

  // Returns true if every input has arrived once.
  bool synced() const {
    for (auto& input : inputs) {
      if (!input()) return false;
    }
    return true;
  }

 private:
  StoreClient& store;
  kj::Function<void()> changed;
  kj::Vector<kj::ConstFunction<bool()>> inputs;
};

// Adds a record to the desired records, replacing a record with this id.
template <typename Spec, typename Fill>
void addRecord(StoreClient::Wanted& records, kj::String id, Fill&& fill) {
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  fill(message->initRoot<Spec>());
  records.upsert(kj::mv(id), kj::mv(message), [](auto& old, auto&& fresh) { old = kj::mv(fresh); });
}
template <typename Spec, typename Fill>
StoreClient::Wanted oneRecord(kj::StringPtr id, Fill&& fill) {
  StoreClient::Wanted records;
  addRecord<Spec>(records, kj::str(id), kj::fwd<Fill>(fill));
  return records;
}

// Returns the error of a call that is only logged and retried; nullptr if the call succeeded.
template <typename F>
kj::Promise<kj::Maybe<kj::String>> errorOf(F&& call) {
  return kj::evalNow(kj::fwd<F>(call))
      .then([]() -> kj::Maybe<kj::String> { return nullptr; },
            [](kj::Exception&& e) -> kj::Maybe<kj::String> { return messageOf(e); });
}

inline Credentials credentialsOf(rpc::KeyPair::Reader pair, capnp::Data::Reader authorities) {
  return {kj::str(authorities.asChars()), kj::str(pair.getCrt().asChars()),
          pki::Pem(kj::str(pair.getKey().asChars()))};
}

}  // namespace talos
