#include "common/wire/budget.h"

#include "common/base/error.h"

namespace talos {

Budget::Account::~Account() noexcept(false) {
  budget.accounts.erase(client);
}

Budget::Account::Hold::Hold(Account& account, size_t bytes) : bytes(bytes) {
  if (account.held + bytes > account.most) {
    fail(ErrorKind::kResourceExhausted, kj::str("the calls of this client have more than ",
                                                account.most, " bytes, over all its connections"));
  }
  auto inTotal = account.budget.limits.inTotal;
  if (account.budget.held + bytes > inTotal) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("the calls of all clients have more than ", inTotal, " bytes; retry later"));
  }
  account.held += bytes;
  account.budget.held += bytes;
  this->account = kj::addRef(account);
}

Budget::Account::Hold::~Hold() noexcept(false) {
  if (account.get() == nullptr) return;
  account->held -= bytes;
  account->budget.held -= bytes;
}

kj::Own<Budget::Account> Budget::account(kj::StringPtr client, unsigned shares) {
  KJ_IF_MAYBE (known, accounts.find(client)) {
    return kj::addRef(**known);
  }
  auto made = kj::refcounted<Account>(*this, kj::str(client), shares * limits.perClient);
  accounts.insert(made->client, made.get());
  return made;
}

void Budget::received(size_t bytes) {
  sinceLook += bytes;
  if (sinceLook < kLookEvery) return;
  sinceLook = 0;
  for (auto& entry : accounts) look(*entry.value);
}

void Budget::look(Account& account) {
  size_t all = 0, most = 0;
  kj::Maybe<Queue&> longest;
  for (auto& queue : account.queues) {
    auto queued = queue.queued();
    all += queued;
    if (queued <= most) continue;
    most = queued;
    longest = queue;
  }
  if (all <= account.most) return;
  KJ_IF_MAYBE (queue, longest) {
    queue->cutOff();
  }
}

}  // namespace talos
