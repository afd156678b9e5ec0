#include "etcd-supervisor/control/stored-secrets.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kSecrets = "/registry/secrets/"_kj;
// A value is 1.5 MiB at most, and usually some KiB.
constexpr size_t kReadAtOnce = 8;

}  // namespace

kj::Promise<StoredSecrets> storedSecrets(etcd::Etcd& member, kj::StringPtr prefixGiven) {
  auto prefix = kj::str(prefixGiven);
  auto list = co_await member.range({.keys = {kj::str(kSecrets), true}, .keysOnly = true});
  StoredSecrets found;
  found.total = list.kvs.size();
  for (size_t from = 0; from < list.kvs.size(); from += kReadAtOnce) {
    auto part = list.kvs.slice(from, kj::min(from + kReadAtOnce, list.kvs.size()));
    etcd::Txn read;
    read.then = KJ_MAP(kv, part) {
      return etcd::Operation(
          etcd::Range{.keys = {kj::str(kv.key), false}, .revision = list.revision});
    };
    auto answer = co_await member.txn(kj::mv(read));
    for (auto& result : answer.results) {
      for (auto& kv : result.get<etcd::RangeResult>().kvs) {
        if (kv.value.startsWith(prefix)) continue;
        ++found.others;
        if (found.names.size() < kMostNamedSecrets) {
          found.names.add(kj::str(kv.key.slice(kSecrets.size())));
        }
      }
    }
  }
  co_return kj::mv(found);
}

}  // namespace talos::supervisor
