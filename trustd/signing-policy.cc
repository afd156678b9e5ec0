#include "trustd/signing-policy.h"

#include "common/base/error.h"
#include "common/base/node-messages.h"
#include "common/net/text-values.h"
#include "common/text/texts.h"
#include "common/tls/node-certificate.h"

namespace talos::trustd {
namespace {

bool isBelow(kj::StringPtr name, kj::StringPtr parent) {
  return name.size() > parent.size() && name.endsWith(parent) &&
         name[name.size() - parent.size() - 1] == '.';
}

[[noreturn]] void deny(kj::String error) {
  fail(ErrorKind::kPermissionDenied, error);
}

void checkName(kj::StringPtr name, const Ip& caller, const Reserved& reserved, const NameBook& book,
               kj::Date now, kj::Date until) {
  // canonicalName() removed one dot; with a second dot the text would pass as another name.
  if (!config::isDnsName(name) || name.endsWith(".")) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the request names \"", name, "\", which is not a valid host name"));
  }
  for (auto& other : reserved.names) {
    if (name == other || isBelow(name, other)) {
      deny(kj::str("the name ", name, " belongs to the control plane"));
    }
  }
  KJ_IF_MAYBE (holder, book.holder(name, caller, now, until)) {
    deny(kj::str("the name ", name, " has a valid certificate for ", holder->toString(),
                 "; two nodes cannot have the same host name"));
  }
}

// Returns true for an IPv4-mapped IPv6 address, like ::ffff:10.0.0.1, which no node has.
bool isMapped(const Ip& address) {
  static const auto kMapped = KJ_ASSERT_NONNULL(Prefix::parse("::ffff:0:0/96"));
  return kMapped.contains(address);
}

// The first two rules have no exception: a holder of the token may also call from an address of the
// control plane, by taking it over or through the same address translation.
void checkAddress(const Ip& address, const Ip& caller, kj::ArrayPtr<const Ip> proven,
                  const Reserved& reserved, bool anyAddress) {
  for (auto& other : reserved.addresses) {
    if (address == other) {
      deny(kj::str("the address ", address.toString(), " belongs to the control plane"));
    }
  }
  if (!address.isUnicast() || address.isLoopback() || isMapped(address)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the request names ", address.toString(), ", which is not an address of a node"));
  }
  if (address == caller || anyAddress) return;
  for (auto& other : proven) {
    if (address == other) return;
  }
  deny(kj::str("the request names the address ", address.toString(), ", but comes from ",
               caller.toString(), "; only addresses that a node calls from are signed"));
}

}  // namespace

Reserved reservedBy(kj::ArrayPtr<const kj::String> hosts, kj::StringPtr dnsDomain) {
  Reserved result;
  for (auto& host : hosts) {
    KJ_IF_MAYBE (address, Ip::parse(host)) {
      result.addresses.add(address->unmapped());
    } else if (host.size() > 0) {
      // A wildcard covers the names below its domain.
      addOnce(result.names, canonicalName(host.startsWith("*.") ? host.slice(2) : host));
    }
  }
  for (auto service :
       {"localhost"_kj, "kubernetes"_kj, "kubernetes.default"_kj, "kubernetes.default.svc"_kj,
        "talos"_kj, "talos.default"_kj, "talos.default.svc"_kj}) {
    addOnce(result.names, kj::str(service));
  }
  if (dnsDomain.size() > 0) addOnce(result.names, canonicalName(dnsDomain));
  return result;
}

kj::Maybe<Ip> NameBook::holder(kj::StringPtr name, const Ip& asking, kj::Date from,
                               kj::Date until) const {
  KJ_IF_MAYBE (entry, entries.find(name)) {
    bool valid = entry->from < until && from < entry->until;
    if (valid && entry->holder != asking) return entry->holder;
  }
  KJ_IF_MAYBE (other, held.find(name)) {
    if (other->holder != asking) return other->holder;
  }
  return nullptr;
}

bool NameBook::has(const Ip& holder, kj::StringPtr name, kj::Date now) const {
  KJ_IF_MAYBE (entry, entries.find(name)) {
    return entry->holder == holder && entry->from <= now && now < entry->until;
  }
  return false;
}

NameBook::Hold::Hold(NameBook& book, kj::ArrayPtr<const kj::String> held, const Ip& holder,
                     kj::Date from, kj::Date until)
    : book(&book), names(copyOf(held)), holder(holder), from(from), until(until) {
  for (auto& name : names) {
    auto& mine = book.held.findOrCreate(name, [&]() {
      count(book.heldCounts, holder, 1);
      return kj::TreeMap<kj::String, Held>::Entry{kj::str(name), Held{holder}};
    });
    ++mine.certificates;
  }
}

NameBook::Hold::Hold(Hold&& other)
    : book(other.book),
      names(kj::mv(other.names)),
      holder(other.holder),
      from(other.from),
      until(other.until) {
  other.book = nullptr;
}

NameBook::Hold::~Hold() noexcept(false) {
  if (book == nullptr) return;
  for (auto& name : names) {
    if (--KJ_ASSERT_NONNULL(book->held.find(name)).certificates > 0) continue;
    book->held.erase(name);
    count(book->heldCounts, holder, -1);
  }
}

void NameBook::Hold::enter() const {
  for (auto& name : names) book->enter(name, holder, from, until);
}

size_t NameBook::countOf(const Counts& counts, const Ip& holder) {
  return counts.find(holder).map([](const size_t& n) { return n; }).orDefault(0);
}

void NameBook::count(Counts& counts, const Ip& address, int change) {
  auto holder = holderOf(address);
  auto& n = counts.findOrCreate(holder, [&]() { return Counts::Entry{holder, 0}; });
  n += change;
  if (n == 0) counts.erase(holder);
}

kj::Maybe<Ip> NameBook::holderOfMost() const {
  kj::Maybe<Ip> holder;
  size_t most = 0;
  for (auto& row : counts) {
    if (row.value <= most) continue;
    most = row.value;
    holder = row.key;
  }
  return holder;
}

kj::Maybe<kj::String> NameBook::quotaError(kj::ArrayPtr<const kj::String> names, const Ip& asking,
                                           kj::Date from) const {
  auto holder = holderOf(asking);
  size_t fresh = 0;
  for (auto& name : names) {
    bool known = false;
    KJ_IF_MAYBE (entry, entries.find(name)) {
      known = holderOf(entry->holder) == holder;
    }
    if (!known && held.find(name) == nullptr) ++fresh;
  }
  if (fresh == 0) return nullptr;
  auto holds = countOf(heldCounts, holder);
  bool full = entries.size() + held.size() + fresh > limits.most;
  bool many = countOf(counts, holder) + holds + fresh > limits.perHolder;
  if (!full && !many) return nullptr;
  size_t over = 0, mine = holds;
  for (auto& row : entries) {
    bool ended = row.value.until <= from;
    if (ended) ++over;
    if (!ended && holderOf(row.value.holder) == holder) ++mine;
  }
  if (mine + fresh > limits.perHolder) {
    return kj::str(holder.toString(), " has ", mine, " names with valid certificates; at most ",
                   limits.perHolder);
  }
  size_t most = 0;
  for (auto& row : counts) most = kj::max(most, row.value);
  if (full && over < fresh && most <= limits.fair) {
    return kj::str("all ", limits.most, " names that this node can store are in use");
  }
  return nullptr;
}

void NameBook::makeRoom(kj::Date from) {
  // The book is full, so such a holder exists.
  auto most = KJ_ASSERT_NONNULL(holderOfMost());
  const kj::String* victim = nullptr;
  kj::Date earliest = kj::UNIX_EPOCH;
  bool victimIsOver = false;
  for (auto& row : entries) {
    bool over = row.value.until <= from;
    if (!over && (victimIsOver || holderOf(row.value.holder) != most)) continue;
    if (victim == nullptr || (over && !victimIsOver) || row.value.until < earliest) {
      victim = &row.key;
      earliest = row.value.until;
      victimIsOver = over;
    }
  }
  if (victim == nullptr) return;
  auto name = kj::str(*victim);
  count(counts, KJ_ASSERT_NONNULL(entries.find(name)).holder, -1);
  entries.erase(name);
}

void NameBook::enter(kj::StringPtr name, const Ip& holder, kj::Date from, kj::Date until) {
  KJ_IF_MAYBE (entry, entries.find(name)) {
    if (until < entry->until && entry->from < until) return;
    count(counts, entry->holder, -1);
    *entry = Entry{holder, from, until};
    count(counts, holder, 1);
    return;
  }
  if (entries.size() >= limits.most) makeRoom(from);
  entries.insert(kj::str(name), Entry{holder, from, until});
  count(counts, holder, 1);
}

Grant decide(const pki::RequestInfo& request, const Ip& caller, const Reserved& reserved,
             const NameBook& book, bool anyAddress, kj::Date now, kj::Date until,
             kj::ArrayPtr<const Ip> proven) {
  if (request.keyType != pki::KeyType::kEd25519 && request.keyType != pki::KeyType::kEcdsaP256) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the request's key is ",
                 request.keyType == nullptr ? "on another curve than P-256" : "RSA",
                 "; use Ed25519 or ECDSA P-256"));
  }
  if (request.dnsNames.size() + request.addresses.size() > kMostNames) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the request has ", request.dnsNames.size() + request.addresses.size(),
                 " names and addresses; at most ", kMostNames));
  }
  Grant grant;
  bool named = false;
  for (auto& text : request.addresses) {
    auto address = KJ_UNWRAP_OR(Ip::parse(text), {
      fail(ErrorKind::kInvalidArgument,
           kj::str("the request names \"", text, "\", which is not a valid address"));
    });
    checkAddress(address, caller, proven, reserved, anyAddress);
    named = named || address == caller;
    addOnce(grant.addresses, address.toString());
  }
  if (!named && !anyAddress) {
    deny(kj::str("the request does not name ", caller.toString(),
                 ", the address that it comes from"));
  }
  if (grant.addresses.empty()) {
    fail(ErrorKind::kInvalidArgument, "the request names no address");
  }
  for (auto& text : request.dnsNames) {
    auto name = canonicalName(text);
    checkName(name, caller, reserved, book, now, until);
    addOnce(grant.dnsNames, kj::mv(name));
  }
  KJ_IF_MAYBE (error, book.quotaError(grant.dnsNames, caller, now)) {
    fail(ErrorKind::kResourceExhausted, *error);
  }
  return grant;
}

void requireKnown(const Grant& grant, const NameBook& book, const Ip& caller, kj::Date now) {
  for (auto& name : grant.dnsNames) {
    if (book.has(caller, name, now)) continue;
    fail(ErrorKind::kFailedPrecondition,
         kj::str("the name ", name,
                 " is not signed yet: this node does not know the other control-plane nodes until "
                 "it has etcd or Kubernetes; addresses are signed"));
  }
}

void requireBound(const Grant& grant, kj::StringPtr token, kj::StringPtr hostname) {
  if (hostname.size() == 0) return;
  auto first = hostname.slice(0, hostname.findFirst('.').orDefault(hostname.size()));
  auto bound = [&](kj::String error) {
    deny(kj::str(messages::kJoinToken, token, messages::kTokenOfName, hostname, "; ", error));
  };
  if (grant.dnsNames.empty()) bound(kj::str("the request has none"));
  for (auto& name : grant.dnsNames) {
    if (name != hostname && name.asArray() != first) {
      bound(kj::str("the request has the name ", name));
    }
  }
}

}  // namespace talos::trustd
