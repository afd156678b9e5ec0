// The network as foreign programs report it: `ip` and `wg` are in the guest beside the tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <kj/vector.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace talos {

// Returns the whole output of a program from PATH, which has to succeed.
inline kj::String output(const char* program, std::initializer_list<const char*> words) {
  kj::Vector<char*> arguments;
  arguments.add(const_cast<char*>(program));
  for (auto word : words) arguments.add(const_cast<char*>(word));
  arguments.add(nullptr);
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd out(ends[0]), in(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 1);
  pid_t child;
  auto path = kj::str("/usr/sbin/", program);
  int code = posix_spawn(&child, path.cStr(), &actions, nullptr, arguments.begin(), environ);
  posix_spawn_file_actions_destroy(&actions);
  KJ_REQUIRE(code == 0, "cannot run it", path, strerror(code));
  in = nullptr;
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(out, buffer, sizeof(buffer))) > 0;) text.append(buffer, size);
  int status;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << program;
  return kj::str(text.c_str());
}
inline kj::String ip(std::initializer_list<const char*> words) {
  return output("ip", words);
}

inline void expectAll(const kj::String& text, std::initializer_list<kj::StringPtr> parts) {
  for (auto part : parts) {
    EXPECT_TRUE(strstr(text.cStr(), part.cStr()) != nullptr) << part.cStr() << "\nin\n"
                                                             << text.cStr();
  }
}

}  // namespace talos
