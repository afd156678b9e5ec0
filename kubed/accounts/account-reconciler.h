// Gives each ServiceAccount of talos.dev a Secret of its name with a client configuration of the
// machine API, and renews it.
//
// The accounts are watched, and all of them are looked at again every kAccountsAgain: a Secret that
// somebody has deleted or changed comes back then, and one that ends soon is renewed. An account
// that is given nothing has the error in status.failureReason, and an event when that changes; a
// Secret that it was given before stays. One that Kubernetes refuses (a quota, an admission
// webhook) is logged and does not hold up the others. A Secret goes with its account, by garbage
// collection. Keeps nothing: after a crash at any line the accounts are looked at again.
#pragma once

#include "kubed/accounts/access-store-adapter.h"
#include "kubed/nodes/watch-reconciler.h"

namespace talos::kubed {

constexpr auto kAccountsAgain = 1 * kj::MINUTES;

class AccountReconciler final : public WatchReconciler {
 public:
  // All outlive it. deps.changed is raised with the changes of `access`, too.
  AccountReconciler(const KubedDependencies& deps, AccessStoreAdapter& access)
      : WatchReconciler(deps.timer, deps.random, wake), deps(deps), access(access) {}
  ~AccountReconciler() noexcept(false) = default;

  // Has run() look at all accounts again: kAccountsAgain after each list, and when inputs in the
  // store change. Until dropped.
  kj::Promise<void> again();

 private:
  const KubedDependencies deps;
  AccessStoreAdapter& access;
  Signal wake, listed;
  kj::Own<SharedKube> kubernetes;  // that is watched
  AccessPolicy policy;
  kj::TreeMap<kj::String, PodAccount> pending;  // by their labels
  kj::TreeMap<kj::String, kj::String> refused;  // errors that were logged, by label
  kj::String logged;                            // the last error of the watch
  uint64_t lastNumber = 0;

  kj::Promise<kj::Maybe<Selection>> select() override;
  void startList() override { pending.clear(); }
  void take(const kube::Json& object, bool deleted) override;
  kj::Promise<void> publish() override;
  void watchStarted() override;
  kj::Promise<void> failed(kj::String error) override;

  kj::Promise<void> forwardChanges();
  kj::Promise<void> listRegularly();
  uint64_t nextNumber();
  kj::Promise<void> reconcile(const PodAccount& account);
  kj::Promise<void> issue(const PodAccount& account, bool exists, kj::StringPtr cause);
  kj::Promise<void> refuse(const PodAccount& account, AccountError error);
  kj::Promise<void> note(const PodAccount& account, kj::StringPtr type, kj::StringPtr reason,
                         kj::StringPtr message);
  kj::Promise<void> setFailure(const PodAccount& account, kj::StringPtr failure);
};

}  // namespace talos::kubed
