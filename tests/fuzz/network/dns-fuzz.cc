// link: networkd-dns
// Messages of DNS as any program on the node or its pods can send them, and any host on the
// network can forge them.
#include <kj/debug.h>

#include "networkd/dns/dns-message.h"
#include "tests/fuzz/fuzz-target.h"

using namespace talos::networkd::dns;

namespace {

// A query that was read can be sent on, and is read as the same again; each answer fits it.
void query(Bytes bytes) {
  auto parsed = parseQuery(bytes);
  KJ_IF_MAYBE (q, parsed) {
    KJ_ASSERT(q->written.size() == q->key.name.size() && q->written.size() <= 255);
    KJ_ASSERT(q->mostUdp >= kPlainUdpSize && q->mostUdp <= kMostUdpSize);
    auto again = parseQuery(encodeQuery(q->key, q->id));
    KJ_IF_MAYBE (a, again) {
      KJ_ASSERT(a->key == q->key && a->id == q->id);
    } else {
      KJ_FAIL_ASSERT("what was understood can be said again");
    }
    KJ_ASSERT(parseResponse(errorAnswer(*q, kServerFailure), q->key, q->id) != nullptr);
  } else {
    auto refused = refusal(bytes);
    KJ_IF_MAYBE (answer, refused) {
      KJ_ASSERT(answer->size() == kHeaderSize && refusal(*answer) == nullptr);
    }
  }
}

// Reads a response to the query that it repeats, as a forger who knows the query can make it.
void response(Bytes bytes) {
  if (bytes.size() < kHeaderSize) return;
  auto asked = kj::heapArray<kj::byte>(bytes);
  asked[2] &= 0x01;  // of the header: a query with one question and nothing else
  for (size_t i = 4; i < kHeaderSize; ++i) asked[i] = i == 5;
  auto parsed = parseQuery(asked);
  KJ_IF_MAYBE (q, parsed) {
    auto read = parseResponse(bytes, q->key, q->id);
    KJ_IF_MAYBE (r, read) {
      KJ_ASSERT(r->lifetime <= kLongestLifetime);
      for (auto place : r->ttls) KJ_ASSERT(place + 4 <= bytes.size());
      if (r->rcode == kServerFailure) return;  // may be without a question
      auto ttls = kj::arrayPtr(r->ttls.data(), r->ttls.size());
      auto answer = answerOf(*q, bytes, ttls, 5);
      KJ_ASSERT(answer.size() == bytes.size());
      auto again = parseResponse(answer, q->key, q->id);
      KJ_IF_MAYBE (a, again) {
        KJ_ASSERT(a->lifetime <= r->lifetime && a->ttls == r->ttls);
      } else {
        KJ_FAIL_ASSERT("an answer is one for its client, too");
      }
    }
  }
}

}  // namespace

// The first octet chooses.
FUZZ_TARGET(dns) {
  if (size == 0) return 0;
  auto bytes = kj::arrayPtr(data + 1, size - 1);
  if (data[0] & 1) {
    response(bytes);
  } else {
    query(bytes);
  }
  return 0;
}
