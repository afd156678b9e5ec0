// Gives each ServiceAccount of talos.dev a Secret of its name with a client configuration of the
// machine API, and renews the Secret.
//
// The accounts are watched, and all of them are checked again every kAccountsAgain: this restores a
// Secret that was deleted or changed, and renews a Secret that ends soon. An account that gets no
// Secret has the error in status.failureReason, and an event when the error changes; a Secret that
// it got before stays. A Secret that Kubernetes refuses (a quota, an admission webhook) is logged
// and does not delay the others. A Secret is garbage-collected with its account. Keeps no state:
// after a crash at any line the accounts are checked again.
#pragma once

#include "kubed/accounts/access-store-adapter.h"
#include "kubed/nodes/watch-reconciler.h"

namespace talos::kubed {

constexpr auto kAccountsAgain = 1 * kj::MINUTES;

class AccountReconciler final : public WatchReconciler {
 public:
  // All arguments must outlive this object. deps.changed is also raised by changes of `access`.
  AccountReconciler(const KubedDependencies& deps, AccessStoreAdapter& access)
      : WatchReconciler(deps.timer, deps.random, wake), deps(deps), access(access) {}
  ~AccountReconciler() noexcept(false) = default;

  // Makes run() check all accounts again: kAccountsAgain after each list, and when inputs in the
  // store change. Runs until dropped.
  kj::Promise<void> again();

 private:
  const KubedDependencies deps;
  AccessStoreAdapter& access;
  Signal wake, listed;
  kj::Own<SharedKube> kubernetes;  // the client that watches
  AccessPolicy policy;
  kj::TreeMap<kj::String, PodAccount> pending;  // by the accounts' labels
  kj::TreeMap<kj::String, kj::String> refused;  // logged errors, by label
  kj::String logged;                            // last error of the watch
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
