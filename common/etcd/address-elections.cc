#include "common/etcd/address-elections.h"

#include <map>
#include <string>

namespace talos::etcd {

kj::Vector<kj::String> addressHolders(kj::ArrayPtr<const KeyValue> keys) {
  std::map<std::string, const KeyValue*> oldest;  // by the key without its lease
  for (auto& key : keys) {
    if (key.value == kReleased) continue;
    std::string name(key.key.begin(), key.key.size());
    auto slash = name.rfind('/');
    if (slash == std::string::npos) continue;
    auto& first = oldest[name.substr(0, slash)];
    if (first == nullptr || key.createRevision < first->createRevision) first = &key;
  }
  kj::Vector<kj::String> holders;
  for (auto& [address, key] : oldest) holders.add(kj::str(key->value));
  return holders;
}

}  // namespace talos::etcd
