// The store as networkd's board: specs in, statuses out. Thin; rules are in specs.h and status.h.
#pragma once

#include "common/store-client.h"
#include "networkd/controller.h"

namespace talos::networkd {

class StoreBoard final : public Board {
 public:
  // `changed` is called for every change of a spec; not before this constructor has returned.
  StoreBoard(StoreClient& store, kj::Function<void()> changed);
  ~StoreBoard() noexcept(false);

  kj::Maybe<Intent> intent() override;
  kj::Promise<void> publish(Report report) override;

 private:
  StoreClient& store;
  kj::Function<void()> changed;
  kj::Own<Watched> links, addresses, routes, hostnames, resolvers, nodeAddresses;
};

}  // namespace talos::networkd
