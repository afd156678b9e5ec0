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
  auto& budget = account.budget;
  bool usual = account.rank == Rank::kUsual;
  auto shared = budget.sharedBy(account.rank);
  if ((usual && budget.heldByUsual + bytes > shared) ||
      budget.held + bytes > budget.limits.inTotal) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("the calls of all clients use more than ", shared, " bytes; retry later"));
  }
  budget.change(account, static_cast<ptrdiff_t>(bytes));
  this->account = kj::addRef(account);
}

Budget::Account::Hold::~Hold() noexcept(false) {
  if (account.get() == nullptr) return;
  account->budget.change(*account, -static_cast<ptrdiff_t>(bytes));
}

void Budget::change(Account& account, ptrdiff_t bytes) {
  account.held += bytes;
  held += bytes;
  if (account.rank == Rank::kUsual) heldByUsual += bytes;
}

kj::Own<Budget::Account> Budget::account(kj::StringPtr client, size_t most, Rank rank) {
  KJ_IF_MAYBE (known, accounts.find(client)) {
    return kj::addRef(**known);
  }
  auto made = kj::refcounted<Account>(*this, kj::str(client), most, rank);
  accounts.insert(made->client, made.get());
  return made;
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

size_t Budget::queuedFor(Account& account) {
  size_t all = 0;
  for (auto& queue : account.queues) all += queue.queued();
  return all;
}

bool Budget::cutGreatest(Rank rank) {
  size_t all = 0, most = 0;
  kj::Maybe<Account&> greatest;
  for (auto& entry : accounts) {
    auto& account = *entry.value;
    if (rank == Rank::kUsual && account.rank != rank) continue;
    auto queued = queuedFor(account);
    if (queued > account.most) continue;  // it was cut off, and is about to have less
    all += queued;
    if (queued <= most) continue;
    most = queued;
    greatest = account;
  }
  if (all <= sharedBy(rank)) return false;
  KJ_IF_MAYBE (account, greatest) cutLongest(*account);
  return true;
}

void Budget::received(size_t bytes) {
  sinceCheck += bytes;
  if (sinceCheck < kCheckEvery) return;
  sinceCheck = 0;
  for (auto& entry : accounts) {
    if (queuedFor(*entry.value) > entry.value->most) cutLongest(*entry.value);
  }
  if (!cutGreatest(Rank::kUsual)) cutGreatest(Rank::kPrivileged);
}

}  // namespace talos
