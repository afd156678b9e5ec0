// Decides whether a call shows that a client can reach the node with the config that is on trial.
//
// A connection from before the change says nothing: the rules of a firewall let it through, and
// apids of other nodes keep theirs for minutes. Nor does a connection from an address of this node,
// which always reaches itself. So a call counts while another machine has a connection that was
// made after the change took effect: after kCallsCountAfter, when the network is as wanted, or
// after kLongestSettling.
//
// At that moment the older connections of other machines are ended, so that their clients connect
// again if they can: the apid of another node keeps its connection, and calls that it forwards
// would never count.
//
// The kernel numbers its sockets, so a connection is never taken for an older one. Pure: the
// connections and the time are passed in. After a crash of the brain all connections are older.
#pragma once

#include <kj/time.h>
#include <kj/vector.h>

#include "common/netlink/netlink-connections.h"
#include "machined/config/trial-judge.h"

namespace talos::machined {

constexpr auto kLongestSettling = 20 * kj::SECONDS;

class TrialCalls {
 public:
  using Connections = kj::ArrayPtr<const netlink::Connection>;

  // The trial with this number is on. Another number than before starts from the beginning.
  // `needsCall`: without one the config goes back.
  void begin(uint64_t number, bool needsCall, kj::TimePoint now);
  // Returns true if look() has to be called, each second.
  bool settles() const { return trial > 0 && !settled; }
  // `connections`: those to the API of this node at this moment; `own`: its addresses. Returns the
  // connections to be ended.
  kj::Vector<netlink::Connection> look(Connections connections, kj::ArrayPtr<const kj::String> own,
                                       bool isNetworkAsWanted, kj::TimePoint now);
  // Returns true if a call at this moment counts.
  bool counts(Connections connections, kj::ArrayPtr<const kj::String> own) const;

 private:
  uint64_t trial = 0;
  bool needsCall = false, settled = false;
  kj::TimePoint begun = kj::origin<kj::TimePoint>();
  kj::Vector<uint64_t> older;  // sockets
};

}  // namespace talos::machined
