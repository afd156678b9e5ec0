#include "common/wire/budget.h"

#include "common/base/error.h"

namespace talos {

Budget::Account::~Account() noexcept(false) {
  budget.accounts.erase(client);
}

Budget::Account::Hold::Hold(Account& account, size_t bytes) : bytes(bytes) {
  if (account.held + bytes > account.most) {
    fail(ErrorKind::kResourceExhausted, kj::str("the calls of this client use more than ",
                                                account.most, " bytes, over all its connections"));
  }
  auto inTotal = account.budget.limits.inTotal;
  if (account.budget.held + bytes > inTotal) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("the calls of all clients use more than ", inTotal, " bytes; retry later"));
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

kj::Own<Budget::Account> Budget::account(kj::StringPtr client, size_t most) {
  KJ_IF_MAYBE (known, accounts.find(client)) {
    return kj::addRef(**known);
  }
  auto made = kj::refcounted<Account>(*this, kj::str(client), most);
  accounts.insert(made->client, made.get());
  return made;
}

size_t Budget::queuedFor(const Account& account) {
  size_t all = 0;
  for (auto& queue : account.queues) all += queue.queued();
  return all;
}

void Budget::cutLongest(Account& account) {
  size_t most = 0;
  kj::Maybe<Queue&> longest;
  for (auto& queue : account.queues) {
    if (queue.queued() <= most) continue;
    most = queue.queued();
    longest = queue;
  }
  KJ_IF_MAYBE (queue, longest) queue->cutOff();
}

void Budget::received(size_t bytes) {
  sinceCheck += bytes;
  if (sinceCheck < kCheckEvery) return;
  sinceCheck = 0;
  size_t all = 0, most = 0;
  kj::Maybe<Account&> greatest;
  for (auto& entry : accounts) {
    auto& account = *entry.value;
    auto queued = queuedFor(account);
    if (queued > account.most) {
      cutLongest(account);
      continue;  // it is about to have less
    }
    all += queued;
    if (queued <= most) continue;
    most = queued;
    greatest = account;
  }
  if (all <= limits.inTotal) return;
  KJ_IF_MAYBE (account, greatest) cutLongest(*account);
}

}  // namespace talos
