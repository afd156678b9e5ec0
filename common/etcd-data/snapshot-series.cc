#include "common/etcd-data/snapshot-series.h"

#include <algorithm>

#include "common/base/date.h"

namespace talos {
namespace {

constexpr kj::StringPtr kPrefix = "etcd-"_kj, kSuffix = ".snapshot"_kj, kEncrypted = ".cms"_kj;
constexpr kj::StringPtr kTime = "00000000T000000Z"_kj;  // 0: a digit
constexpr size_t kUntilCluster = sizeof("etcd-00000000T000000Z") - 1, kClusterDigits = 16;

bool isSnapshot(kj::StringPtr name) {
  auto whole = kPrefix.size() + kTime.size() + kSuffix.size();
  bool plain = name.size() == whole && name.endsWith(kSuffix);
  bool encrypted = name.size() == whole + kEncrypted.size() && name.endsWith(".snapshot.cms");
  if (!name.startsWith(kPrefix) || (!plain && !encrypted)) return false;
  for (size_t i = 0; i < kTime.size(); ++i) {
    char c = name[kPrefix.size() + i];
    if (kTime[i] == '0' ? c < '0' || c > '9' : c != kTime[i]) return false;
  }
  return true;
}

}  // namespace

kj::String snapshotName(kj::Date date, bool encrypted) {
  kj::Vector<char> time;
  for (char c : dateText(date)) {
    if (c != '-' && c != ':') time.add(c);
  }
  return kj::str(kPrefix, time.asPtr(), kSuffix, encrypted ? kEncrypted : ""_kj);
}

kj::Maybe<kj::Date> snapshotDate(kj::StringPtr name) {
  if (!isSnapshot(name)) return nullptr;
  auto t = name.slice(kPrefix.size());
  auto part = [&](size_t at, size_t size) { return t.asArray().slice(at, at + size); };
  return parseDate(kj::str(part(0, 4), "-", part(4, 2), "-", part(6, 2), "T", part(9, 2), ":",
                           part(11, 2), ":", part(13, 2), "Z"));
}

kj::String backupName(kj::Date date, uint64_t cluster) {
  auto name = snapshotName(date, true);
  auto id = kj::hex(cluster);
  auto zeros = kj::repeat('0', kClusterDigits - id.size());
  return kj::str(name.slice(0, kUntilCluster), "-", zeros, id, name.slice(kUntilCluster));
}

kj::Maybe<Backup> readBackupName(kj::StringPtr name) {
  KJ_IF_MAYBE (date, snapshotDate(name)) return Backup{*date, nullptr};
  auto behind = kUntilCluster + 1 + kClusterDigits;
  if (name.size() <= behind || name[kUntilCluster] != '-') return nullptr;
  uint64_t cluster = 0;
  for (char digit : name.slice(kUntilCluster + 1, behind)) {
    bool decimal = digit >= '0' && digit <= '9';
    if (!decimal && (digit < 'a' || digit > 'f')) return nullptr;
    cluster = cluster << 4 | static_cast<uint64_t>(decimal ? digit - '0' : digit - 'a' + 10);
  }
  auto date = snapshotDate(kj::str(name.slice(0, kUntilCluster), name.slice(behind)));
  KJ_IF_MAYBE (d, date) return Backup{*d, cluster};
  return nullptr;
}

kj::Vector<kj::StringPtr> replacedSnapshots(kj::ArrayPtr<const kj::String> names, size_t keep) {
  kj::Vector<kj::StringPtr> ours;
  for (auto& name : names) {
    if (isSnapshot(name)) ours.add(name);
  }
  std::sort(ours.begin(), ours.end());  // by their times
  ours.truncate(ours.size() > keep ? ours.size() - keep : 0);
  return ours;
}

}  // namespace talos
