// The policy of trustd: it signs only names and addresses that belong to the caller by proof. Pure.
//
// A caller proves three things: it knows the token, it has the private key of its request (which
// this key signs), and it has the address that it calls from and the addresses that it has called
// from a moment ago (trustd/address-proofs.h). So the certificate carries these addresses, and
// names that no other node has: no name of the control plane, and no name in a valid certificate of
// another address. Subject, key usages and lifetime are never the caller's choice.
//
// No certificate has a loopback address, so no worker's certificate passes for a control-plane
// node's (isOfControlPlane() in common/tls/node-certificate.h), to which workers send their tokens.
//
// While this node does not know the other control-plane nodes, it cannot tell which names are
// theirs: then it signs only names that the caller already has, or that a token is bound to.
//
// With address translation the caller's address proves nothing: with `anyAddress` the addresses in
// a request are accepted. Names and addresses of the control plane, and addresses that no single
// node owns (loopback, multicast), are never signed, wherever a request comes from.
#pragma once

#include <kj/map.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

#include "common/net/ip.h"
#include "common/tls/pki.h"
#include "trustd/quota-holder.h"

namespace talos::trustd {

constexpr size_t kMostRequestBytes = 16u << 10;
constexpr size_t kMostNames = 32;  // DNS names and addresses together

// Names and addresses of the control plane, for which trustd issues no certificate.
struct Reserved {
  kj::Vector<kj::String> names;  // lower case; a name also reserves the names below it
  kj::Vector<Ip> addresses;
};
// Collects the names and addresses of a control-plane machine from its config and names: its host
// name, the endpoint, certSANs of both APIs, and the names of the services by which pods reach
// these APIs.
Reserved reservedBy(kj::ArrayPtr<const kj::String> hosts, kj::StringPtr dnsDomain);

// The holders of names, while their certificates are valid.
//
// Bounded in total and for each holder (trustd/quota-holder.h), so that a caller with many names
// displaces only its own: a holder with `perHolder` valid names gets no more. When the book is
// full, expired names are removed first, then those of the holder with most names that expire
// first; while no holder has more than `fair`, nothing is removed and new names are refused. A name
// that its holder already has can always be renewed.
//
// A name is entered when its certificate is issued. Until then it is held, so that no other node
// gets it meanwhile; a refused request takes no name.
class NameBook {
 public:
  struct Limits {
    size_t most = 20'000;     // a machine has two or three; some 5 MB with the longest names
    size_t perHolder = 5000;  // one address may stand for a whole site of machines
    size_t fair = 32;         // the names of one request
  };
  NameBook() : NameBook(Limits()) {}
  explicit NameBook(Limits limits) : limits(limits) {}
  // Returns the address of another node that has the name at some time of this span; nullptr if the
  // name is free for `asking`.
  kj::Maybe<Ip> holder(kj::StringPtr name, const Ip& asking, kj::Date from, kj::Date until) const;
  // Returns the error if these names cannot all be entered for this node at this time.
  kj::Maybe<kj::String> quotaError(kj::ArrayPtr<const kj::String> names, const Ip& asking,
                                   kj::Date from) const;
  // Enters a certificate that is valid in this span. The order of calls does not matter: of two
  // certificates the last to expire counts, unless it starts after the other's end: then the clock
  // was wrong.
  void enter(kj::StringPtr name, const Ip& holder, kj::Date from, kj::Date until);
  // Returns true if the holder has a currently valid certificate with this name.
  bool has(const Ip& holder, kj::StringPtr name, kj::Date now) const;
  size_t size() const { return entries.size(); }

  // Names of a certificate that is being issued, counted as names of its node; free again when the
  // Hold is dropped. The book outlives it.
  class Hold {
   public:
    Hold() = default;
    // The certificate is valid in this span.
    Hold(NameBook& book, kj::ArrayPtr<const kj::String> names, const Ip& holder, kj::Date from,
         kj::Date until);
    Hold(Hold&& other);
    ~Hold() noexcept(false);
    Hold& operator=(Hold&&) = delete;
    KJ_DISALLOW_COPY(Hold);
    // Enters the names, because the certificate is issued.
    void enter() const;

   private:
    NameBook* book = nullptr;
    kj::Array<kj::String> names;
    Ip holder;
    kj::Date from = kj::UNIX_EPOCH, until = kj::UNIX_EPOCH;
  };

 private:
  struct Entry {
    Ip holder;
    kj::Date from, until;
  };
  struct Held {
    Ip holder;
    size_t certificates = 0;  // being issued for this name
  };
  Limits limits;
  kj::TreeMap<kj::String, Entry> entries;
  kj::TreeMap<kj::String, Held> held;
  using Counts = kj::TreeMap<Ip, size_t>;
  Counts counts, heldCounts;  // entries of each holder, and held names of each

  static size_t countOf(const Counts& counts, const Ip& holder);
  static void count(Counts& counts, const Ip& address, int change);
  kj::Maybe<Ip> holderOfMost() const;
  void makeRoom(kj::Date from);
};

struct Grant {
  kj::Vector<kj::String> dnsNames;   // lower case, each once
  kj::Vector<kj::String> addresses;  // canonical text, each once
};

// Decides about a request. Throws PermissionDenied (content that does not belong to the caller by
// proof) or InvalidArgument (content that is never signed), each with a hint, or ResourceExhausted
// (the caller has too many names). The certificate is valid from now until `until`. `proven`:
// further addresses that the caller has proved. Enters nothing.
Grant decide(const pki::RequestInfo& request, const Ip& caller, const Reserved& reserved,
             const NameBook& book, bool anyAddress, kj::Date now, kj::Date until,
             kj::ArrayPtr<const Ip> proven = nullptr);

// Throws FailedPrecondition if the grant has a name for which the caller has no valid certificate:
// for a node that does not know the other control-plane nodes.
void requireKnown(const Grant& grant, const NameBook& book, const Ip& caller, kj::Date now);

// Throws PermissionDenied unless the grant has a name and all its names are `hostname`, to which
// the join token is bound, or the first label of `hostname`. Empty: the token is not bound.
void requireBound(const Grant& grant, kj::StringPtr token, kj::StringPtr hostname);

}  // namespace talos::trustd
