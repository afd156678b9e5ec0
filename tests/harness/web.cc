#include "tests/harness/web.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

namespace talos::harness {
namespace {

// A thread may change its own network namespace; the others keep theirs.
int listenIn(pid_t process, const std::string& address, int port) {
  int result = -1;
  std::string failure;
  std::thread([&] {
    auto exception = kj::runCatchingExceptions([&] {
      int raw;
      KJ_SYSCALL(raw = open(("/proc/" + std::to_string(process) + "/ns/net").c_str(),
                            O_RDONLY | O_CLOEXEC));
      kj::AutoCloseFd theirs(raw);
      KJ_SYSCALL(setns(theirs, CLONE_NEWNET));
      KJ_SYSCALL(raw = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      kj::AutoCloseFd fd(raw);
      int on = 1;
      KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
      sockaddr_in name = {};
      name.sin_family = AF_INET;
      name.sin_port = htons(port);
      KJ_REQUIRE(inet_pton(AF_INET, address.c_str(), &name.sin_addr) == 1, address.c_str());
      KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name), address.c_str(), port);
      KJ_SYSCALL(listen(fd, 64));
      result = dup(fd);
    });
    KJ_IF_MAYBE (e, exception) failure = e->getDescription().cStr();
  }).join();
  KJ_REQUIRE(result >= 0, failure.c_str());
  fcntl(result, F_SETFD, FD_CLOEXEC);
  return result;
}

void sendAll(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    auto n = send(fd, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return;
    at += n;
  }
}

std::string head(const std::string& status, size_t length) {
  return "HTTP/1.1 " + status +
         "\r\nConnection: close\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
}

}  // namespace

Web::Web(pid_t process, const std::string& address, int port) {
  KJ_SYSCALL(pipe2(stop, O_CLOEXEC));
  listening = listenIn(process, address, port);
  acceptor = std::thread([this] { accept(); });
}

Web::~Web() {
  close(stop[1]);  // every poll sees the end of the pipe
  acceptor.join();
  for (auto& worker : workers) worker.join();
  close(stop[0]);
  close(listening);
}

void Web::answer(const std::string& client, Manner manner, const std::string& body) {
  std::lock_guard lock(mutex);
  answers[client] = {manner, body};
}

void Web::answerTo(const std::string& request, Manner manner, const std::string& body) {
  std::lock_guard lock(mutex);
  byRequest[request] = {manner, body};
}

int Web::asked(const std::string& client) const {
  std::lock_guard lock(mutex);
  auto found = requests.find(client);
  return found == requests.end() ? 0 : found->second;
}

int Web::askedFor(const std::string& request) const {
  std::lock_guard lock(mutex);
  auto found = requestsFor.find(request);
  return found == requestsFor.end() ? 0 : found->second;
}

std::string Web::heard(const std::string& client) const {
  std::lock_guard lock(mutex);
  auto found = latest.find(client);
  return found == latest.end() ? "" : found->second;
}

bool Web::stopped(int milliseconds) const {
  pollfd end = {stop[0], POLLIN, 0};
  return poll(&end, 1, milliseconds) != 0;
}

void Web::accept() {
  for (;;) {
    pollfd fds[2] = {{listening, POLLIN, 0}, {stop[0], POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 || fds[1].revents != 0) return;
    sockaddr_in from = {};
    socklen_t size = sizeof from;
    int fd = accept4(listening, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC);
    if (fd < 0) continue;
    char text[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &from.sin_addr, text, sizeof text);
    workers.emplace_back([this, fd, client = std::string(text)] {
      serve(fd, client);
      close(fd);
    });
  }
}

void Web::serve(int fd, const std::string& client) {
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos) {
    pollfd fds[2] = {{fd, POLLIN, 0}, {stop[0], POLLIN, 0}};
    char buffer[4096];
    if (poll(fds, 2, -1) < 0 || fds[1].revents != 0) return;
    auto n = read(fd, buffer, sizeof buffer);
    if (n <= 0) return;
    request.append(buffer, n);
  }
  Answer answer;
  {
    std::lock_guard lock(mutex);
    ++requests[client];
    latest[client] = request;
    auto found = answers.find(client);
    answer = found != answers.end() ? found->second : answers[""];
    for (auto& [start, other] : byRequest) {
      if (!request.starts_with(start)) continue;
      answer = other;
      ++requestsFor[start];
    }
  }
  auto& body = answer.body;
  switch (answer.manner) {
    case Manner::kGood:
      return sendAll(fd, head("200 OK", body.size()) + body);
    case Manner::kNotFound:
      return sendAll(fd, head("404 Not Found", 0));
    case Manner::kEmpty:
      return sendAll(fd, head("200 OK", 0));
    case Manner::kHalf:
      return sendAll(fd, head("200 OK", body.size()) + body.substr(0, body.size() / 2));
    case Manner::kReset: {
      sendAll(fd, head("200 OK", body.size()) + body.substr(0, body.size() / 2));
      linger now = {1, 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
      return;
    }
    case Manner::kSlow:
      sendAll(fd, head("200 OK", body.size()));
      for (char byte : body) {
        sendAll(fd, std::string(1, byte));
        if (stopped(1000)) return;
      }
      return;
    case Manner::kSilent:
      stopped(-1);
      return;
  }
}

}  // namespace talos::harness
