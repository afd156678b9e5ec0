#include "networkd/dhcp/router-advertised.h"

namespace talos::networkd::dhcp {
namespace {

constexpr size_t kMost = 16;

template <typename List>
void removeAt(List& list, size_t index) {
  for (size_t i = index + 1; i < list.size(); ++i) list[i - 1] = kj::mv(list[i]);
  list.removeLast();
}

}  // namespace

template <typename T>
bool Advertised::put(kj::Vector<Held<T>>& list, T value, uint32_t lifetime, kj::TimePoint now) {
  kj::Maybe<kj::TimePoint> until;
  if (lifetime != kInfinite) until = now + uint64_t(lifetime) * kj::SECONDS;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!(list[i].value == value)) continue;
    if (lifetime == 0) {
      removeAt(list, i);
      return true;
    }
    list[i].until = until;
    return false;
  }
  if (lifetime == 0) return false;
  if (list.size() == kMost) removeAt(list, 0);
  list.add(Held<T>{kj::mv(value), until});
  return true;
}

template <typename T>
bool Advertised::drop(kj::Vector<Held<T>>& list, kj::TimePoint now) {
  bool changed = false;
  for (size_t i = list.size(); i-- > 0;) {
    KJ_IF_MAYBE (until, list[i].until) {
      if (now < *until) continue;
      removeAt(list, i);
      changed = true;
    }
  }
  return changed;
}

bool Advertised::hear(const Advertisement& message, kj::TimePoint now) {
  bool changed = !heard || (message.other && !information);
  heard = true;
  information = information || message.other;
  for (auto& option : message.resolvers) {
    for (auto& server : option.servers) changed |= put(servers, server, option.lifetime, now);
  }
  for (auto& option : message.search) {
    for (auto& name : option.names) changed |= put(domains, kj::str(name), option.lifetime, now);
  }
  return changed;
}

bool Advertised::expire(kj::TimePoint now) {
  bool changed = drop(servers, now);
  return drop(domains, now) || changed;
}

kj::Maybe<kj::TimePoint> Advertised::deadline() const {
  kj::Maybe<kj::TimePoint> first;
  auto consider = [&](const kj::Maybe<kj::TimePoint>& until) {
    KJ_IF_MAYBE (moment, until) first = kj::min(*moment, first.orDefault(*moment));
  };
  for (auto& held : servers) consider(held.until);
  for (auto& held : domains) consider(held.until);
  return first;
}

kj::Vector<Ip> Advertised::resolvers() const {
  kj::Vector<Ip> result;
  for (auto& held : servers) result.add(held.value);
  return result;
}

kj::Vector<kj::String> Advertised::search() const {
  kj::Vector<kj::String> result;
  for (auto& held : domains) result.add(kj::str(held.value));
  return result;
}

}  // namespace talos::networkd::dhcp
