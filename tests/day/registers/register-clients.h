// Clients of etcd that read and write all the time of a day, one for each member, and record what
// they were answered (oracles/register-oracle.h).
//
// A client calls its member alone, and has a new connection after each failure and after some
// calls. After forget() the clients use other keys, so that the history of a long day stays short.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/net/ip.h"
#include "common/tls/tls.h"
#include "tests/day/oracles/register-oracle.h"

namespace talos::day {

// A member of etcd, and how to become its client. The credentials are read for each connection, on
// the client's thread, and may throw while they are not available.
struct Member {
  Endpoint endpoint;
  std::function<Credentials()> credentials;
};

class RegisterClients {
 public:
  // How often a client calls its member, and how long it waits for the answer.
  struct Pace {
    std::chrono::milliseconds between{120};
    kj::Duration call = 2 * kj::SECONDS;
  };
  // Keys of registers, and the prefix of keys that are written once.
  static constexpr const char *kRegisters = "/day/register/", *kOnce = "/day/once/";

  // `enter` is called on each thread before it opens sockets.
  RegisterClients(std::vector<Member> members, std::function<void()> enter, unsigned keys,
                  uint64_t seed, Pace pace);
  ~RegisterClients() noexcept;
  KJ_DISALLOW_COPY_AND_MOVE(RegisterClients);

  // Returns the calls that are not forgotten; a call under way has an unknown outcome.
  History history() const;
  // Returns the keys below kOnce whose write was answered, without forgotten ones.
  std::set<std::string> answered() const;
  // Forgets what was recorded before the previous call of forget().
  void forget();
  struct Totals {
    size_t calls = 0, once = 0;  // of registers; answered writes of keys below kOnce
    size_t forgotten = 0;        // of the latter
  };
  Totals totals() const;
  // Returns the number of calls that the member has answered.
  unsigned answers(unsigned member) const;
  // Returns the number of calls that have failed at this member.
  unsigned failures(unsigned member) const;
  // The keys below kOnce, as a member answers.
  struct Present {
    std::set<std::string> keys;  // without forgotten ones
    size_t count = 0;            // of all
  };
  // Throws if the member does not answer.
  Present present(unsigned member) const;

 private:
  struct Client;

  std::vector<Member> members;
  std::function<void()> enter;
  unsigned keys;
  uint64_t seed;
  Pace pace;
  mutable std::mutex mutex;
  unsigned epoch = 0;                                      // number of the calls of forget()
  std::map<unsigned, History> calls;                       // by epoch
  std::map<unsigned, std::set<std::string>> acknowledged;  // keys below kOnce, by epoch
  Totals counted;
  std::vector<std::unique_ptr<Client>> clients;
};

}  // namespace talos::day
