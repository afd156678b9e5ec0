// The real process 1, reached through the socket that the brain has as descriptor 3.
//
// Owns the socket and the parts of the inventory that have not been taken. After a crash the
// successor makes a new one and finds everything again: see process1.h. A request that was sent is
// carried out even if this process ends before the answer; a dropped promise does not cancel it.
//
// The constructor reads the inventory: process 1 sends it without a request and never waits, so
// this takes well under a millisecond; after 10 s without it the constructor throws. Requests that
// do not fit into the socket are queued, in order, with duplicates of their descriptors. As long as
// the object lives and the loop turns, process 1 gets a beat each second.
#pragma once

#include <kj/async-unix.h>
#include <kj/map.h>

#include <deque>

#include "machined/process1/init/init-protocol.h"
#include "machined/process1/process1.h"

namespace talos::machined {

class SocketProcess1 final : public Process1 {
 public:
  SocketProcess1(kj::UnixEventPort& port, kj::AutoCloseFd socket);
  KJ_DISALLOW_COPY_AND_MOVE(SocketProcess1);

  kj::Promise<Started> spawn(SpawnRequest request) override;
  void signal(kj::StringPtr slot, int number) override;
  kj::Promise<Exit> nextExit() override;
  kj::Promise<void> hold(kj::StringPtr name, int fd) override;
  kj::Promise<void> drop(kj::StringPtr name) override;
  kj::Vector<Survivor> takeSurvivors() override { return kj::mv(survivors); }
  kj::Maybe<kj::AutoCloseFd> takeHeld(kj::StringPtr name) override;
  kj::Vector<kj::String> heldNames() override;
  unsigned brainRestarts() const override { return restarts; }
  kj::Promise<PowerAction> nextPowerAction() override;
  kj::Promise<void> reboot(unsigned command) override;

 private:
  struct Incoming {
    process1::Report report;
    kj::Maybe<kj::AutoCloseFd> fd;
  };
  struct Outgoing {
    kj::Array<kj::byte> bytes;
    kj::Vector<kj::AutoCloseFd> fds;
  };
  struct Waiting {
    kj::String what;  // for error messages
    kj::Own<kj::PromiseFulfiller<Started>> fulfiller;
  };

  kj::AutoCloseFd socket;
  kj::UnixEventPort::FdObserver observer;
  unsigned restarts = 0;
  kj::Vector<Survivor> survivors;
  kj::TreeMap<kj::String, kj::AutoCloseFd> held;
  std::deque<Outgoing> unsent;
  bool flushing = false;

  uint32_t lastId = 0;
  kj::TreeMap<uint32_t, Waiting> waiting;
  struct Ended {
    uint64_t sequence;
    Exit exit;
  };
  std::deque<Ended> exits;
  kj::Maybe<uint64_t> unacknowledged;  // given to the caller
  kj::Maybe<kj::Own<kj::PromiseFulfiller<Exit>>> exitWanted;
  std::deque<PowerAction> pendingActions;
  kj::Maybe<PowerAction> deliveredAction;  // to the caller
  kj::Maybe<kj::Own<kj::PromiseFulfiller<PowerAction>>> actionWaiter;
  kj::Maybe<kj::Exception> broken;
  kj::Promise<void> reading;
  kj::Promise<void> writing;
  kj::Promise<void> beating;

  kj::Promise<void> beat(kj::Timer& timer);
  void readInventory();
  bool takeInventory(Incoming incoming);
  kj::Maybe<Incoming> receive();
  kj::Promise<void> readLoop();
  kj::Promise<void> flush();
  void handle(Incoming incoming);
  void settle(Incoming incoming);
  void fail(kj::Exception reason);
  kj::Promise<Started> kind(kj::ArrayPtr<const kj::byte> bytes, kj::ArrayPtr<const int> fds,
                            uint32_t id, kj::String what);
  void send(kj::ArrayPtr<const kj::byte> bytes, kj::ArrayPtr<const int> fds);
  bool trySend(kj::ArrayPtr<const kj::byte> bytes, kj::ArrayPtr<const int> fds);
  process1::Request request(process1::RequestKind kind, kj::StringPtr name, uint32_t argument = 0);
};

}  // namespace talos::machined
