# Build: static, so that the final stage needs nothing but the binary.
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
# Dependencies first: they change less often than the code.
COPY Cargo.toml Cargo.lock ./
# (Cargo wants every declared target's file, so the bench and the cluster tests get stubs.)
RUN mkdir -p src benches tests/cluster && touch src/lib.rs \
    && for f in src/main.rs benches/decision.rs tests/cluster/main.rs; do \
         echo 'fn main() {}' > $f; done \
    && cargo build --release --locked && rm -r src
COPY src src
RUN touch src/main.rs src/lib.rs && cargo build --release --locked --bin muster

# Run: no shell, no package manager, no root.
FROM scratch
COPY --from=build /src/target/release/muster /muster
USER 65532:65532
EXPOSE 8443 8444 8080
ENTRYPOINT ["/muster"]
CMD ["serve", "--log-format", "json"]
