#include "networkd/dns/dns-cache.h"

#include <iterator>

#include "networkd/dhcp/dhcp-wire.h"

namespace talos::networkd::dns {

kj::Maybe<kj::Array<kj::byte>> Cache::find(const Query& query, kj::TimePoint now) {
  auto place = places.find(query.key);
  if (place == places.end()) return nullptr;
  auto answer = place->second;
  if (now >= answer->until) {
    drop(answer);
    return nullptr;
  }
  answers.splice(answers.begin(), answers, answer);
  auto age = uint32_t((now - answer->came) / kj::SECONDS);
  return answerOf(query, answer->message, kj::arrayPtr(answer->ttls.data(), answer->ttls.size()),
                  age);
}

void Cache::add(const QueryKey& key, Bytes message, const Response& response, kj::TimePoint now) {
  auto old = places.find(key);
  if (old != places.end()) drop(old->second);
  if (response.lifetime == 0) return;
  answers.push_front(Answer{key, dhcp::copyOf(message), response.ttls, now,
                            now + int64_t(response.lifetime) * kj::SECONDS});
  places.emplace(key, answers.begin());
  bytes += message.size();
  while (answers.size() > kMostAnswers || bytes > kMostBytes) drop(std::prev(answers.end()));
}

void Cache::clear() {
  answers.clear();
  places.clear();
  bytes = 0;
}

void Cache::drop(Answers::iterator answer) {
  bytes -= answer->message.size();
  places.erase(answer->key);
  answers.erase(answer);
}

}  // namespace talos::networkd::dns
