// What the containers of the tests run: one program with a few words, since an image here has no
// shell. Words are joined by `--` and done in order, until one fails:
//
//   box now -- wait-file /gate/open -- now -- sleep 2 -- exit 3
//
//   now             prints the time as milliseconds since 1970
//   sleep SECONDS   a fraction is allowed
//   echo TEXT...
//   write PATH      makes an empty file
//   copy FROM TO    writes the file in place, as programs do that install a network plugin
//   wait-file PATH  looks every 100 ms until the file is there
//   call HOST PORT  prints whether a TCP connection is made within 2 s: open, or closed
//   resolve NAME    prints an address of the name, looking again for 30 s
//   exit CODE
//
// Under another name than box, that name is the first word: /bin/sleep 60
#include <arpa/inet.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

// The first process of a container gets no signal that it does not ask for.
static void down(int signal) { _exit(128 + signal); }

static void rest(double seconds) {
  struct timespec span = {.tv_sec = (time_t)seconds};
  span.tv_nsec = (long)((seconds - (double)span.tv_sec) * 1e9);
  nanosleep(&span, 0);
}

static int now(void) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  printf("%lld\n", (long long)at.tv_sec * 1000 + at.tv_nsec / 1000000);
  return 0;
}

static int make(const char *path) {
  FILE *file = fopen(path, "w");
  if (!file) {
    perror(path);
    return 1;
  }
  return fclose(file);
}

static int copy(const char *from, const char *to) {
  FILE *in = fopen(from, "r"), *out = in ? fopen(to, "w") : 0;
  if (!out) {
    perror(in ? to : from);
    return 1;
  }
  for (int c; (c = fgetc(in)) != EOF;) fputc(c, out);
  return fclose(out) | fclose(in);
}

// A packet that is dropped gets no answer at all.
static int call(const char *host, const char *port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
  struct timeval limit = {.tv_sec = 2};
  int line = socket(AF_INET, SOCK_STREAM, 0);
  if (line < 0 || !inet_aton(host, &at.sin_addr)) return 1;
  // On Linux it limits connect() too.
  setsockopt(line, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  printf(connect(line, (struct sockaddr *)&at, sizeof at) ? "closed\n" : "open\n");
  return close(line);
}

// A name is known a moment after its pod has an address.
static int resolve(const char *name) {
  struct addrinfo wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
  int code = EAI_AGAIN;
  for (int tries = 0; tries < 300; tries++) {
    code = getaddrinfo(name, 0, &wanted, &found);
    if (!code) {
      printf("%s\n", inet_ntoa(((struct sockaddr_in *)found->ai_addr)->sin_addr));
      return 0;
    }
    rest(0.1);
  }
  fprintf(stderr, "%s: %s\n", name, gai_strerror(code));
  return 1;
}

// One word with its arguments.
static int run(int count, char **words) {
  const char *first = count > 1 ? words[1] : "";
  if (!strcmp(words[0], "now")) return now();
  if (!strcmp(words[0], "exit")) exit(atoi(first));
  if (!strcmp(words[0], "sleep")) {
    rest(atof(first));
    return 0;
  }
  if (!strcmp(words[0], "echo")) {
    for (int i = 1; i < count; i++) printf("%s%s", i > 1 ? " " : "", words[i]);
    printf("\n");
    return 0;
  }
  if (!strcmp(words[0], "resolve")) return resolve(first);
  if (!strcmp(words[0], "write")) return make(first);
  if (!strcmp(words[0], "copy") && count > 2) return copy(first, words[2]);
  if (!strcmp(words[0], "call") && count > 2) return call(first, words[2]);
  if (!strcmp(words[0], "wait-file")) {
    while (access(first, F_OK)) rest(0.1);
    return 0;
  }
  fprintf(stderr, "box: no word %s\n", words[0]);
  return 2;
}

int main(int count, char **words) {
  signal(SIGTERM, down);
  signal(SIGINT, down);
  // A log must be readable while its container runs.
  setvbuf(stdout, 0, _IOLBF, 0);
  char *slash = strrchr(words[0], '/');
  if (slash) words[0] = slash + 1;
  int start = !strcmp(words[0], "box");
  while (start < count) {
    int end = start;
    while (end < count && strcmp(words[end], "--")) end++;
    int code = end > start ? run(end - start, words + start) : 0;
    if (code) return code;
    start = end + 1;
  }
  return 0;
}
