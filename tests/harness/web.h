// A web server inside a local cluster's network that misbehaves on request, for each client: late,
// slow, truncated, or with another body than requested.
//
// One thread accepts, one serves each connection; all end with the object. Its behaviour is data,
// so a test reads as a table.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace talos::harness {

enum class Manner {
  kGood,
  kSlow,      // a byte each second
  kHalf,      // announces all of the body, sends half of it, closes
  kReset,     // the same, with a reset
  kNotFound,  // 404
  kEmpty,     // 200 without a body
  kSilent,    // takes the request and never answers
};

class Web {
 public:
  // Listens in the network namespace of `processInNamespace` at once; throws when it cannot.
  Web(pid_t processInNamespace, const std::string& address, int port);
  ~Web();
  Web(const Web&) = delete;

  // Sets the answer to a client (an address; "" means all others) for any path from now on.
  void answer(const std::string& client, Manner manner, const std::string& body = "");
  // Does the same for requests that begin like this, "GET /latest/user-data ", of any client.
  void answerTo(const std::string& request, Manner manner, const std::string& body = "");
  // Returns the number of this client's requests so far.
  int asked(const std::string& client) const;
  // Returns the number of requests so far to which answerTo() set this answer.
  int askedFor(const std::string& request) const;
  // Returns the line and headers of the client's latest request; empty if there was none.
  std::string heard(const std::string& client) const;

 private:
  struct Answer {
    Manner manner = Manner::kNotFound;
    std::string body;
  };
  int listening = -1;
  int stop[2] = {-1, -1};
  mutable std::mutex mutex;
  std::map<std::string, Answer> answers, byRequest;
  std::map<std::string, int> requests, requestsFor;
  std::map<std::string, std::string> latest;
  std::thread acceptor;
  std::vector<std::thread> workers;

  void accept();
  void serve(int fd, const std::string& client);
  bool stopped(int milliseconds) const;
};

}  // namespace talos::harness
