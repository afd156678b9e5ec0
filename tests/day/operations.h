// Does the operations of a random day on its cluster.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <string>

#include "tests/cluster/changes.h"
#include "tests/day/day-cluster.h"
#include "tests/day/oracles/secret-oracle.h"
#include "tests/day/oracles/state-oracles.h"
#include "tests/day/registers/register-clients.h"
#include "tests/harness/filled-disk.h"

namespace talos::day {

class Operations {
 public:
  // Visits states in `states`, and adds to `secrets` those that it makes.
  Operations(DayCluster& nodes, const RegisterClients* clients, VisitedStates& states,
             SecretOracle& secrets)
      : nodes(nodes), clients(clients), states(states), secrets(secrets) {}

  // `alone`: no other operation disturbs it, so that a command must succeed.
  void begin(const Operation& operation, bool alone);
  // Undoes a fault, or waits until the command has ended and its effect is complete. Returns the
  // problem of an operation that failed or did something else; otherwise an empty text.
  std::string end(const Operation& operation);

 private:
  struct Running {
    bool alone = false;
    unsigned failuresBefore = 0;
    Heal heal;
    std::string failure;  // of the harness, when the operation began
    std::future<std::string> command;
  };
  DayCluster& nodes;
  const RegisterClients* clients;
  VisitedStates& states;
  SecretOracle& secrets;
  std::map<unsigned, Running> running;  // by the number of the operation

  Heal strike(const Operation& it);
  std::string command(const Operation& it, bool alone);
  // Returns a problem if the command has failed and nothing has disturbed it.
  static std::string must(bool alone, const harness::Result& result);

  std::string patch(const Operation& it, bool alone);
  std::string tryChange(const Operation& it, bool alone);
  std::string badConfig(const Operation& it);
  std::string badConfigResult(const Operation& it, const std::string& before,
                              const std::string& patch);
  std::string badImage(const Operation& it, bool alone);
  std::string reset(const Operation& it, bool alone);
  std::string tokenJoin(const Operation& it, bool alone);
  std::string renew(const Operation& it, bool alone);
  std::string rotate(const Operation& it);
};

}  // namespace talos::day
